"""Other programs on the machine: they are seen, and times measured beside them are marked."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.test_cli import KERNEL, TASK
from tools import measure
from tools.clock import Clocks
from tools.errors import InfrastructureError
from tools.judge import open_task
from tools.neighbours import BUSY, PATIENCE, PATIENCE_VARIABLE, Neighbours, Patience, patience_seconds
from tools.records import Accepted, Rejected, Unjudged
from tools.task import read_kernel, read_task

SPIN = "while True: pass"


@contextmanager
def spinning(count: int) -> Iterator[list[psutil.Process]]:
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield [psutil.Process(other.pid) for other in others]
    finally:
        for other in others:
            other.kill()
            other.wait()


def used(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def test_what_others_use_is_seen() -> None:
    with spinning(1) as others:
        before = used(others)
        begin = time.perf_counter()
        neighbours = Neighbours(time.process_time)
        while used(others) - before < 0.3:
            time.sleep(0.05)
        assert neighbours.cores() * (time.perf_counter() - begin) > 0.2


def test_what_the_judge_itself_uses_is_not_counted() -> None:
    start = time.perf_counter()
    careful, careless = Neighbours(time.process_time), Neighbours(lambda: 0.0)
    begin = time.process_time()
    while time.process_time() - begin < 0.5:
        pass
    assert (careless.cores() - careful.cores()) * (time.perf_counter() - start) > 0.3


def test_patience_ends_on_a_busy_machine_and_comes_back_on_a_quiet_one() -> None:
    patience = Patience(1.5)
    looks: list[float] = []

    def own_seconds() -> float:
        looks.append(time.process_time())
        return looks[-1]

    with spinning(os.cpu_count() or 1):
        assert patience.wait(own_seconds, most=5.0)
        assert len(looks) >= 4, "it looked once and took the machine for quiet"
        looks.clear()
        assert not patience.wait(own_seconds, most=5.0)
        assert not looks
        patience.restore()
        assert patience.wait(own_seconds, most=0.1)


def test_a_time_measured_beside_busy_programs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "QUIET_WAIT", 0.3)
    (tmp_path / "twice.py").write_text(TASK)
    (tmp_path / "twice.cpp").write_text(KERNEL)
    with open_task(read_task(tmp_path / "twice.py")) as judge, spinning(1):
        verdict = judge.evaluate(read_kernel(tmp_path / "twice.cpp"))
    assert isinstance(verdict, Accepted), verdict
    assert verdict.cores_used_by_others is not None
    assert verdict.cores_used_by_others >= BUSY


def test_no_kernel_is_called_a_liar_for_what_other_programs_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks are made to disagree; what is said of it depends on who else used the cores."""
    monkeypatch.setattr(Clocks, "disagreement", lambda _: "the clocks differ")
    (tmp_path / "twice.py").write_text(TASK)
    (tmp_path / "twice.cpp").write_text(KERNEL)
    kernel = read_kernel(tmp_path / "twice.cpp")
    monkeypatch.setattr("tools.canary.CpuYardstick._require_true_clock", lambda _: None)
    with open_task(read_task(tmp_path / "twice.py")) as judge:
        monkeypatch.setattr(Neighbours, "cores", lambda _: 0.0)
        quiet = judge.evaluate(kernel)
        monkeypatch.setattr(Neighbours, "cores", lambda _: 2 * BUSY)
        busy = judge.evaluate(kernel)
    assert isinstance(quiet, Rejected) and quiet.reason == "clocks_disagree"
    assert {"clocks", "calls"} <= quiet.stages[-1].details.keys(), "the figures that it was rejected by"
    assert isinstance(busy, Unjudged) and measure.TOO_BUSY in busy.message


def test_patience_can_be_set_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PATIENCE_VARIABLE)
    assert patience_seconds() == PATIENCE
    for given, seconds in (("0", 0.0), ("2.5", 2.5)):
        monkeypatch.setenv(PATIENCE_VARIABLE, given)
        assert patience_seconds() == seconds
    for wrong in ("soon", "-1", "nan", "inf", ""):
        monkeypatch.setenv(PATIENCE_VARIABLE, wrong)
        with pytest.raises(InfrastructureError, match=PATIENCE_VARIABLE):
            patience_seconds()
