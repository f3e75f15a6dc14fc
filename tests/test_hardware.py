"""Measured peaks, the limit, cache flushes, and the lock that keeps timings apart."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pytest

from tools import canary
from tools import device_lock as module
from tools.canary import wrong_reading
from tools.clock import Clocks, Reading
from tools.device_lock import device_lock
from tools.errors import InfrastructureError
from tools.hardware import Hardware, arithmetic_of, hardware, instruments, limit_seconds, measure_hardware

MACHINE = Hardware(
    model="made up", cores=2, memory_bytes=1 << 30, cache_bytes=1 << 20, compiler="g++",
    read_bandwidth=2e10, copy_bandwidth=1e10, write_bandwidth=5e9, peak_flops={"float64": 5e10, "float32": 1e11},
)  # fmt: skip


def test_the_limit_is_the_larger_of_moving_and_computing() -> None:
    assert limit_seconds(2e7, None, "float32", MACHINE) == pytest.approx(1e-3)
    assert limit_seconds(2e7, 1e9, "float32", MACHINE) == pytest.approx(1e-2)
    assert limit_seconds(2e7, 1e9, "float64", MACHINE) == pytest.approx(2e-2)
    assert limit_seconds(2e7, 1e12, "bfloat16", MACHINE) == pytest.approx(1e-3)  # no peak known, none invented
    assert limit_seconds(2e7, 1e9, "float16", MACHINE) == pytest.approx(1e-2)  # converted to float32
    assert limit_seconds(0, 0, "float32", MACHINE) > 0


def test_the_policy_says_which_peak_bounds_the_arithmetic() -> None:
    units = MACHINE.model_copy(update={"peak_flops": MACHINE.peak_flops | {"tf32": 4e11, "bfloat16": 8e11}})
    wanted = {"strict": ("float32", 1e11), "tf32": ("tf32", 4e11), "mixed": ("bfloat16", 8e11)}
    for policy, (name, peak) in wanted.items():
        assert arithmetic_of(["int64", "float32", "float64"], policy) == name  # type: ignore[arg-type]
        assert units.peak(name) == peak
    assert arithmetic_of(["float16", "float32"], "tf32") == "float16"
    assert arithmetic_of(["int32", "bool"], "mixed") == "none"
    assert MACHINE.peak("tf32") == 1e11  # a processor without such units works in float32
    assert MACHINE.model_copy(update={"matrix_units": True}).peak("tf32") is None  # it has units that nobody measured


def test_a_peak_seen_once_stays() -> None:
    other = MACHINE.model_copy(update={"read_bandwidth": 3e10, "peak_flops": {"float32": 9e10, "float16": 2e11}})
    best = MACHINE.best_of(other)
    assert best.bandwidth == 3e10
    assert best.peak_flops == {"float64": 5e10, "float32": 1e11, "float16": 2e11}


def test_measured_peaks_are_those_of_a_processor() -> None:
    with device_lock():
        machine = measure_hardware(brief=True)
    assert 1e8 < machine.bandwidth < 5e12
    assert 1e8 < machine.peak_flops["float64"] < 1e15
    assert 1e8 < machine.peak_flops["float32"] < 1e15


def test_peaks_are_kept_for_the_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path))
    instruments()
    first = hardware()
    assert list(tmp_path.glob("hardware-*.json"))
    again = hardware()
    assert again.bandwidth >= first.bandwidth
    assert again.model == first.model


def test_a_flushed_array_is_slow_to_read_and_still_right() -> None:
    data = np.arange(1 << 16, dtype=np.float64)
    total = data.sum()

    def read() -> float:
        begin = time.perf_counter()
        assert data.sum() == total
        return time.perf_counter() - begin

    warm, cold = [], []
    for _ in range(100):  # side by side, so that what else the machine does slows both
        instruments().flush(data)
        cold.append(read())
        warm.append(read())
    assert min(cold) > 1.3 * min(warm)


def test_share_of_floor_is_the_largest_error_over_what_is_granted() -> None:
    oracle = np.full((4, 100), 2.0)
    actual = oracle.astype(np.float32)
    assert instruments().share_of_floor(actual, oracle, 100, 1e-3, 1e-3) == 0
    actual[2, 7] += 0.001
    assert instruments().share_of_floor(actual, oracle, 100, 1e-3, 1e-3) == pytest.approx(0.5, rel=1e-3)
    actual[0, 0] = np.nan
    assert instruments().share_of_floor(actual, oracle, 100, 1e-3, 1e-3) == np.inf
    assert instruments().share_of_floor(actual.astype(np.float16), oracle, 100, 1e-3, 1e-3) is None


def _hold(name: str, shared: bool, holding: Event, release: Event) -> None:
    with device_lock(name, shared=shared):
        holding.set()
        release.wait(20)


@pytest.fixture
def device() -> Iterator[str]:
    name = f"test-{os.getpid()}-{secrets.token_hex(4)}"
    yield name
    for path in Path("/tmp").glob(f"warpsmith-{name}*"):
        path.unlink()


@pytest.mark.parametrize("held_shared", [True, False])
@pytest.mark.parametrize("wanted_shared", [True, False])
def test_timings_are_alone_and_other_work_is_not(device: str, held_shared: bool, wanted_shared: bool) -> None:
    context = multiprocessing.get_context("spawn")
    holding, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(device, held_shared, holding, release))
    other.start()
    try:
        assert holding.wait(20)
        wanted = device_lock(device, shared=wanted_shared, patience=0.2)
        if held_shared and wanted_shared:
            with wanted:
                pass
        else:
            with pytest.raises(InfrastructureError, match="too long"), wanted:
                pass
    finally:
        release.set()
        other.join(20)
    with device_lock(device, patience=5):
        pass


def test_a_dead_holder_lets_go(device: str) -> None:
    context = multiprocessing.get_context("spawn")
    holding, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(device, False, holding, release))
    other.start()
    assert holding.wait(20)
    other.kill()
    other.join(20)
    with device_lock(device, patience=5):
        pass


def test_one_thread_holds_it_once_and_can_not_sharpen_it(device: str) -> None:
    with device_lock(device), device_lock(device, shared=True, patience=0.1):
        pass
    with device_lock(device, shared=True), pytest.raises(RuntimeError), device_lock(device):
        pass
    done = threading.Event()
    with device_lock(device):
        thread = threading.Thread(target=lambda: (_try(device), done.set()))
        thread.start()
        thread.join(5)
    assert done.is_set()


def _try(device: str) -> None:
    with pytest.raises(InfrastructureError), device_lock(device, patience=0.1):
        pass


def test_a_lock_file_that_is_a_trap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_FOLDER", tmp_path)
    (tmp_path / "warpsmith-cpu.gate.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises((InfrastructureError, OSError)), device_lock():
        pass


def test_a_busy_machine_does_not_make_the_clock_look_wrong_and_a_wrong_clock_does() -> None:
    def told(*seconds: float) -> str | None:
        return wrong_reading(Clocks(tuple(Reading(each, each + 20e-6) for each in seconds), (20e-6,) * len(seconds)))

    due = canary.SECONDS
    assert told(due, due, due) is None
    assert told(9 * due, 1.01 * due, 2 * due, 5 * due) is None
    assert "reads" in (told(1.5 * due, 1.3 * due, 9 * due) or "")
    assert "reads" in (told(due, 0.5 * due, due, due) or "")
