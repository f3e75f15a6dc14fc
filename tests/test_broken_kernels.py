"""Kernels that are merely broken: each gets a clear reason, by line where there is one, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from adversary import KERNELS, Case, Judges, broken, explain, outcome

from tools.records import Rejected
from tools.worker import WorkerLimits

BROKEN = broken()
WRITTEN = Path("/tmp/warpsmith-was-here")


@pytest.fixture(scope="module")
def judges(request: pytest.FixtureRequest) -> Iterator[Judges]:
    """With time limits for tests that would otherwise wait for the real ones."""
    asked = [item.callspec.params["case"] for item in request.session.items if item.module is request.module
             and hasattr(item, "callspec")]  # fmt: skip
    wanted = [case for case in asked if case.name != "compiles_forever"]
    with pytest.MonkeyPatch.context() as patch, Judges(dict.fromkeys(wanted), Path("/nonexistent")) as opened:
        patch.setattr("tools.judge.TIMEOUT_LEAST", 1.5)
        patch.setattr("tools.cpu_device.WorkerLimits", partial(WorkerLimits, start_timeout=3.0))
        patch.setattr("tools.targets.cpu.COMPILE_SECONDS", 20.0)
        yield opened


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_every_broken_kernel_is_in_the_manifest() -> None:
    assert {case.path for case in BROKEN} == set((KERNELS / "broken").iterdir())


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in BROKEN])
def test_broken_kernel_is_told_what_is_wrong(case: Case, judges: Judges, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judges.of(case)
    if case.name == "compiles_forever":
        monkeypatch.setattr("tools.targets.cpu.COMPILE_SECONDS", 2.0)
    before = children()
    verdict = judge.evaluate(case.kernel())
    assert outcome(verdict) in case.expect, explain(verdict)
    assert isinstance(verdict, Rejected)
    told = " ".join([verdict.message, *(diagnostic.message for diagnostic in verdict.diagnostics)])
    assert case.says in told
    assert "\n" not in verdict.message
    if case.line is not None:
        assert case.line in {diagnostic.line for diagnostic in verdict.diagnostics}, verdict.diagnostics
    assert children() == before
    assert not WRITTEN.exists()


def test_judge_accepts_honest_kernels_after_all_that(judges: Judges) -> None:
    honest = Case("benign", "c10_in_place.cpp", "softmax")
    verdict = judges.evaluate(honest)
    assert outcome(verdict) == "accepted", explain(verdict)
