"""Variants that share a worker, as they do on a GPU: one that takes the worker with it costs no other its result.

A stand-in of CPU workers, all of which end when one does, takes the place of the GPU's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from small_tasks import HONEST, SLOW, WRONG, cpp, saxpy

from tools.buffers import WorkloadBuffers
from tools.compilers import COMPILER_BYTES, Compilers, compilers
from tools.cpu_device import CpuDevice
from tools.judge import Judge
from tools.records import Kernel
from tools.targets.base import Build
from tools.targets.building import failed
from tools.worker import Worker, WorkerFailed

CRASH = HONEST.replace("    for", "    *(volatile float*)nullptr = 1;\n    for")
NO_START = HONEST + "\n#include <stdlib.h>\nstatic const int ended = (abort(), 1);\n"


class Shared:
    """See `tools.device.SharedWorker`."""

    def __init__(self, buffers: Sequence[WorkloadBuffers]) -> None:
        self.buffers, self.workers, self.current = buffers, dict[int, Worker](), -1
        self.was_closed = False

    def load(self, library: Path, number: int = 0) -> None:
        try:
            self.workers[number] = Worker(library, self.buffers)
        except WorkerFailed:
            self.close()
            raise
        self.use(number)

    def use(self, number: int) -> None:
        assert not self.was_closed
        self.current = number

    @property
    def worker(self) -> Worker:
        return cast(Worker, self)

    @property
    def closed(self) -> bool:
        if any(worker.closed for worker in self.workers.values()):
            self.close()
        return self.was_closed

    def close(self) -> None:
        self.was_closed = True
        for worker in self.workers.values():
            worker.close()

    def kill(self) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.workers[self.current], name)


class Sharing(CpuDevice):
    """The CPU, as a device whose workers take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.houses: list[Shared] = []

    def shared_worker(self, buffers: Sequence[WorkloadBuffers]) -> Shared:  # type: ignore[override]
        self.houses.append(Shared(buffers))
        return self.houses[-1]


def test_a_variant_that_takes_the_worker_with_it_costs_no_other_its_result() -> None:
    device = Sharing()
    with Judge(saxpy(), device, lambda _: None) as judge:
        variants = [HONEST, CRASH, WRONG, NO_START, SLOW, "int x = ;"]
        results = judge.quick([cpp(text) for text in variants], cpp(SLOW))
        assert [result.status for result in results] == [
            *("timed", "rejected", "rejected", "rejected", "timed", "rejected")
        ]
        assert [result.reason for result in results[1:4]] == ["crashed", "wrong_result", "crashed"]
        assert all(result.ratio is not None for result in results if result.status == "timed")
        assert len(device.houses) == 3, "one, another without what did not load, and one without what crashed"
        assert all(house.was_closed for house in device.houses)
        assert [result.status for result in judge.quick([cpp(CRASH), cpp(NO_START)])] == ["rejected"] * 2


def test_compilers_are_as_many_as_cores_and_memory_allow() -> None:
    assert compilers(16, 100 * COMPILER_BYTES) == 16
    assert compilers(16, 3 * COMPILER_BYTES) == 3
    assert compilers(16, 0) == 1


def test_a_kernel_is_built_once_however_often_it_is_asked_for() -> None:
    built: list[str] = []

    def build(kernel: Kernel) -> Build:
        built.append(kernel.id)
        return failed(kernel, (), (), "compile_error", message="no")

    making = Compilers(build)
    one, other = cpp(HONEST), cpp(SLOW)
    making.begin([one, other, one])
    assert making.begun(one) is not None
    assert [making.take(each).result().report.kernel for each in (one, other)] == [one.id, other.id]
    assert making.begun(one) is None, "what was handed out is in the cache"
    making.close()
    assert sorted(built) == sorted([one.id, other.id])
    making.close()
