"""Runs the stages of an evaluation: times each, keeps its evidence, and turns a failure into a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pydantic import JsonValue

from tools.records import Kernel, Rejected, Stage, StageReport
from tools.runner import Failed
from tools.worker import WorkerFailed


@dataclass
class Evidence:
    """What a stage fills in while it runs."""

    details: dict[str, JsonValue] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    output: str = ""
    seconds: float = 0.0
    """Time spent so far, when a stage goes on later."""


class Rejection(Exception):
    """Ends an evaluation with its verdict."""

    def __init__(self, verdict: Rejected) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


class Stages:
    """The reports of one evaluation so far."""

    def __init__(self, kernel: Kernel, progress: Callable[[str], None], explain: Callable[[Failed], Failed]) -> None:
        """`explain` may add what else can be found out about a worker that failed."""
        self._kernel = kernel
        self._progress = progress
        self._explain = explain
        self._reports: list[StageReport] = []

    @property
    def reports(self) -> tuple[StageReport, ...]:
        return tuple(self._reports)

    @contextmanager
    def run(self, stage: Stage, evidence: Evidence | None = None, *, goes_on: bool = False) -> Iterator[Evidence]:
        """Run one stage, or a part of one that `goes_on`. Raises Rejection when the kernel fails it."""
        self._progress(stage)
        evidence = evidence or Evidence()
        begin = time.perf_counter() - evidence.seconds
        try:
            yield evidence
        except WorkerFailed as failure:
            failed = Failed(
                failure.reason,
                f"it {failure.message}",
                diagnostics=failure.diagnostics,
                details=failure.details,
                output=failure.output,
            )
            raise self._rejection(stage, self._explain(failed), evidence, begin) from failure
        except Failed as failed:
            raise self._rejection(stage, failed, evidence, begin) from None
        evidence.seconds = time.perf_counter() - begin
        if not goes_on:
            self._reports.append(_report(stage, evidence, passed=True))

    def _rejection(self, stage: Stage, failed: Failed, evidence: Evidence, begin: float) -> Rejection:
        evidence.details.update(failed.details)
        evidence.output = failed.output or evidence.output
        evidence.seconds = time.perf_counter() - begin
        self._reports.append(_report(stage, evidence, passed=False))
        return Rejection(
            Rejected(
                kernel=self._kernel.id,
                stage=stage,
                reason=failed.reason,
                message=failed.message,
                stages=self.reports,
                diagnostics=failed.diagnostics,
                mismatch=failed.mismatch,
            )
        )


def _report(stage: Stage, evidence: Evidence, *, passed: bool) -> StageReport:
    return StageReport(
        stage=stage,
        passed=passed,
        seconds=evidence.seconds,
        command=evidence.command,
        stdout=evidence.output,
        details=evidence.details,
    )
