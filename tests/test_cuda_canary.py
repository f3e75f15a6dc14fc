"""The judge's yardstick on a GPU, and its cold caches: what becomes of a clock that lies, and what the driver is asked
for. A worker and a driver that do as they are told stand in for both; no GPU is needed."""

# ruff: noqa: ARG002, ARG005 (stand-ins take what the real ones do)

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tools import cuda_device, cuda_flush
from tools.canary import CALLS, SECONDS, TRIES
from tools.clock import Clocks, Reading
from tools.cuda_canary import CudaYardstick, wrong_reading
from tools.cuda_device import CudaDevice
from tools.cuda_flush import FLUSH_FACTOR, ColdCache
from tools.errors import InfrastructureError
from tools.worker import Call, WorkerFailed

GOLDEN = Path(__file__).parent / "golden/h200"
TRIP = 2e-4


class Obedient:
    """A worker that takes as long as it is told, by both clocks."""

    def __init__(self, call: Callable[[float], Call], buffers: Any, turns: int) -> None:
        self._call, self._buffers, self.closed, self.calls = call, buffers, False, 0
        self.outputs = [SimpleNamespace(fetch=lambda: None, outputs={"turns": np.int64(turns)}) for _ in buffers]

    def pause(self) -> None: ...

    def call(self, workload: int, timeout: float, freeze_on_answer: bool) -> Call:
        assert freeze_on_answer
        self.calls += 1
        return self._call(self._buffers[workload].seconds)

    def mapped_libraries(self) -> tuple[str, ...]:
        return ("libcuda.so.1",)

    def threads(self) -> int:
        return 3

    def close(self) -> None:
        self.closed = True


class Buffers:
    def __init__(self, *signatures: object) -> None:
        self.seconds, self.closed = -1.0, False

    def write(self, values: Any) -> None:
        self.seconds = int(values["nanoseconds"]) * 1e-9

    def close(self) -> None:
        self.closed = True


def yardstick(call: Callable[[float], Call], turns: int = 9) -> tuple[CudaYardstick, list[Obedient]]:
    """Of a worker whose calls are these."""
    started: list[Obedient] = []

    def start(build: Any, buffers: Any) -> Any:
        started.append(Obedient(call, buffers, turns))
        return started[-1]

    target: Any = SimpleNamespace(compile_kernel=lambda kernel, header: SimpleNamespace(library=Path("k.so")))
    try:
        return CudaYardstick(target, cast(Any, Buffers), start, CudaDevice.allowance), started
    finally:
        yardstick.started = started  # type: ignore[attr-defined]


def honest(seconds: float) -> Call:
    return Call(seconds, seconds + TRIP)


def test_true_clocks_are_believed() -> None:
    made, started = yardstick(honest)
    assert made.round_trip() == TRIP and made.libraries == {"libcuda.so.1"} and made.threads == 3
    clocks, turns = made.readings(2 * SECONDS)
    assert turns == 9 and clocks.seconds == pytest.approx([2 * SECONDS] * CALLS)
    made.close()
    assert started[0].closed


@pytest.mark.parametrize(
    ("call", "turns", "why"),
    [
        (lambda s: Call(s / 2, s + TRIP), 9, "a call of 3 ms reads 1.500 ms"),
        (lambda s: Call(s * 1.3, s * 1.3 + TRIP), 9, "a call of 3 ms reads 3.900 ms"),
        (lambda s: Call(s, 2 * s + TRIP), 9, "the judge's clock 6000.0 us"),
        (lambda s: Call(s, s / 2 + TRIP), 9, "more than the judge's clock around it"),
        (honest, 0, "left no trace"),
    ],
)
def test_a_clock_that_reads_wrong_is_refused_after_several_tries(
    call: Callable[[float], Call], turns: int, why: str
) -> None:
    with pytest.raises(InfrastructureError, match=why) as refused:
        yardstick(call, turns)
    assert "can't be trusted here" in refused.value.message
    (worker,) = yardstick.started  # type: ignore[attr-defined]
    assert worker.closed and worker.calls == TRIES * 3 * CALLS


def test_one_bad_minute_is_forgiven() -> None:
    calls = iter([*[Call(SECONDS * 2, SECONDS * 2 + TRIP)] * 3 * CALLS])
    made, _ = yardstick(lambda seconds: next(calls, honest(seconds)))
    made.close()


def test_a_worker_that_fails_is_the_machine_s_fault() -> None:
    def fail(seconds: float) -> Call:
        raise WorkerFailed("crashed", "crashed (SIGSEGV)", "")

    with pytest.raises(InfrastructureError, match="the judge's own worker failed: it crashed"):
        yardstick(fail)
    assert yardstick.started[0].closed  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "refused"), [("canary", False), ("short_canary", True), ("long_canary", True)])
def test_the_canary_as_an_h200_read_it(name: str, refused: bool) -> None:
    record = json.loads((GOLDEN / "live/clocks.json").read_text())["clocks"]
    row = record[name]
    readings = tuple(Reading(*pair) for pair in row["readings"])
    said = wrong_reading(Clocks(readings, tuple(row["round_trips"]), CudaDevice.allowance))
    assert said == row["refused"] and (said is not None) == refused and row["turns"] > 0


# -------------------------------------------------------------------------------------------------------- cold caches

CACHE, MULTIPROCESSORS = 60 << 20, 132


class Driver:
    """Writes down what it is asked, and answers for a device with so large a cache."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []
        self.sizes: dict[int, int] = {}

    def call(self, name: str, *arguments: Any) -> None:
        self.said.append((name, *arguments))
        if name == "cuDeviceGetAttribute":
            asked = {38: CACHE, 16: MULTIPROCESSORS}[arguments[1].value]
            ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_int)).contents.value = asked
        if name == "cuMemAlloc_v2":
            address = 4096 * (len(self.sizes) + 1)
            self.sizes[address] = arguments[1].value
            ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_uint64)).contents.value = address

    def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        shape, (stream, arguments, _) = [each.value for each in rest[:7]], rest[7:]
        values = [ctypes.cast(arguments[place], ctypes.POINTER(ctypes.c_int64)).contents.value for place in range(3)]
        self.said.append(("launch", *shape, stream.value, *values))
        return 0

    @property
    def names(self) -> list[str]:
        return [each[0] for each in self.said]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    for module in (cuda_flush, cuda_device):
        monkeypatch.setattr(module, "call", made.call)
    monkeypatch.setattr(cuda_flush, "driver", lambda: made)
    return made


def test_a_cold_cache_is_read_through_by_every_multiprocessor(driver: Driver) -> None:
    cold = ColdCache("instruments.cubin")
    assert cold.size == FLUSH_FACTOR * CACHE >= 2 * CACHE
    block, sink = driver.sizes
    assert driver.sizes[block] == cold.size, "memory of its own that is as large"
    cleared = [each[1].value for each in driver.said if each[0] == "cuMemsetD8_v2"]
    assert cleared == [block, sink]
    cold.read(77)
    name, blocks, *ones, threads = driver.said[-1][:5]
    assert (name, blocks % MULTIPROCESSORS, ones, threads) == ("launch", 0, [1, 1], 512)
    assert driver.said[-1][8:] == (77, block, cold.size // 16, sink), "sixteen bytes at a time, to the end"
    cold.close()
    assert [each[1].value for each in driver.said if each[0] == "cuMemFree_v2"] == [block, sink]


def test_before_a_call_lines_lose_their_right_to_stay_and_the_cache_is_overwritten_and_read(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order: writing does not push out what persists, and what was only written is yet to be written back."""
    cold = ColdCache("instruments.cubin")
    device: Any = CudaDevice.__new__(CudaDevice)
    device._cold, device._flushed, device._stream = cold, "memory", SimpleNamespace(handle=5)
    device._context = SimpleNamespace(synchronize=lambda: driver.said.append(("synchronize",)))
    written: list[tuple[Any, ...]] = []

    def memset(*arguments: Any) -> None:
        driver.said.append(("memset",))
        written.append(arguments)

    monkeypatch.setattr(cuda_device, "cuda", SimpleNamespace(memset_d8_async=memset))
    begin = len(driver.said)
    CudaDevice.flush(device, cast(Any, None), cast(Any, None))
    assert driver.names[begin:] == ["cuCtxResetPersistingL2Cache", "memset", "launch", "synchronize"]
    ((memory, _, size, stream),) = written
    assert (memory, size, stream) == ("memory", 2 * CACHE, device._stream)
    CudaDevice.flush(device, cast(Any, None), cast(Any, None))
    assert all(0 <= each[1] < 256 for each in written)
