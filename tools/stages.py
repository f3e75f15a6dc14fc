"""Runs the stages of an evaluation: times each, keeps its evidence, and turns a failure into a verdict.

The two stages that need no device, `screen` and `build`, are here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from tools.records import BuildReport, Kernel, Rejected, Stage, StageReport
from tools.runner import Failed
from tools.screen import screen
from tools.targets.base import Build, Target, Variant
from tools.worker import WorkerFailed


class Bench(Protocol):
    """What the stages need of a judge."""

    target: Target

    def build_variant(self, kernel: Kernel, variant: Variant) -> Build: ...

    def progress(self, stage: str, /) -> None: ...


@dataclass
class Evidence:
    """What a stage fills in while it runs."""

    details: dict[str, JsonValue] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    output: str = ""
    seconds: float = 0.0
    """Time spent so far, when a stage goes on later."""
    build: BuildReport | None = None


class Rejection(Exception):
    """Ends an evaluation with its verdict."""

    def __init__(self, verdict: Rejected) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


class Stages:
    """The stages of one evaluation of one kernel, and their reports so far."""

    def __init__(
        self, bench: Bench, kernel: Kernel, explain: Callable[[Failed], Failed] = lambda failed: failed
    ) -> None:
        """`explain` may add what else can be found out about a worker that failed."""
        self._bench = bench
        self._kernel = kernel
        self._explain = explain
        self._reports: list[StageReport] = []

    @property
    def reports(self) -> tuple[StageReport, ...]:
        return tuple(self._reports)

    def before_device(self) -> Build:
        """Screen and build. Raises Rejection, InfrastructureError and KernelError."""
        with self.run("screen"):
            self._screen()
        with self.run("build") as evidence:
            return self._build(evidence)

    @contextmanager
    def run(self, stage: Stage, evidence: Evidence | None = None, *, goes_on: bool = False) -> Iterator[Evidence]:
        """Run one stage, or a part of one that `goes_on`. Raises Rejection when the kernel fails it."""
        self._bench.progress(stage)
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
            self.add_passed(stage, evidence)

    def add_passed(self, stage: Stage, evidence: Evidence) -> None:
        """Report a stage that no kernel can fail, or has not."""
        self._reports.append(_report(stage, evidence, passed=True))

    def _screen(self) -> None:
        if self._kernel.language not in self._bench.target.languages:
            raise Failed("forbidden_source", f"the {self._bench.target.name} target has no {self._kernel.language}")
        found = screen(self._kernel)
        if found:
            first = found[0]
            raise Failed("forbidden_source", f"{first.file}:{first.line}: {first.message}", diagnostics=found)

    def _build(self, evidence: Evidence) -> Build:
        build = self._bench.build_variant(self._kernel, "release")
        evidence.build = build.report
        evidence.command = build.report.command
        evidence.output = build.report.output
        evidence.details["cached"] = build.report.cached
        if build.library is None:
            reason = build.reason or "compile_error"
            raise Failed(reason, build.message, diagnostics=build.report.diagnostics)
        return build

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
        build=evidence.build,
    )
