"""A kernel whose duration is known: it must read right before any other kernel's time is believed."""

from __future__ import annotations

import numpy as np

from tools.buffers import WorkloadBuffers
from tools.clock import Clocks, Reading
from tools.contract import Signature, Tensor, task_header
from tools.device_lock import device_lock
from tools.errors import InfrastructureError
from tools.records import Kernel
from tools.sandbox import Sandbox
from tools.targets.base import Target
from tools.worker import Worker, WorkerFailed

SECONDS = 0.003
CALLS = 5
TRIES = 4
TOO_SHORT = 0.99
TOO_LONG = 1.2
"""Fractions of SECONDS."""

_SOURCE = """
#include "task.h"
#include <time.h>
static int64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
extern "C" void solve(const task::Args& args, void*) {
    const int64_t end = now() + *args.nanoseconds;
    int64_t turns = 0;
    while (now() < end) ++turns;
    *args.turns = turns;
}
"""
_SIGNATURE = Signature(
    inputs=(Tensor(name="nanoseconds", dtype="int64", shape=()),),
    outputs=(Tensor(name="turns", dtype="int64", shape=()),),
)


class CpuYardstick:
    """A worker that holds a kernel of the judge's own, which takes 3 ms by its making.

    It shows that the clocks read right, what files any worker has mapped, and how long a round trip takes when no
    kernel has a hand in it. Close it.
    """

    def __init__(self, target: Target, sandbox: Sandbox) -> None:
        """Raises InfrastructureError when the judge reads anything but 3 ms."""
        header = task_header("canary", [_SIGNATURE])
        build = target.compile_kernel(Kernel(language="cpp", files={"kernel.cpp": _SOURCE}), header)
        if build.library is None:
            raise InfrastructureError(f"the canary kernel does not build: {build.message}", "Run `warpsmith doctor`.")
        self._buffers = WorkloadBuffers(_SIGNATURE, [_SIGNATURE])
        self._buffers.write({"nanoseconds": np.array(round(SECONDS * 1e9), np.int64)})
        self._worker: Worker | None = None
        try:
            self._worker = Worker(build.library, [self._buffers], sandbox=sandbox)
            self.libraries = frozenset(self._worker.mapped_libraries())
            with device_lock("cpu"):
                self._require_true_clock()
        except WorkerFailed as failure:
            self.close()
            raise InfrastructureError(
                f"the canary kernel failed: it {failure.message}", "Run `warpsmith doctor`."
            ) from failure
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
        self._buffers.close()

    def round_trip(self) -> float:
        """Seconds of one empty request to a parked worker. Raises InfrastructureError when the worker is gone."""
        assert self._worker is not None
        try:
            self._worker.pause()
            seconds = self._worker.ping().outer
            self._worker.pause()
        except WorkerFailed as failure:
            raise InfrastructureError(f"the judge's own worker failed: it {failure.message}") from failure
        return seconds

    def _require_true_clock(self) -> None:
        for _ in range(TRIES):
            why = self._wrong_reading()
            if why is None:
                return
        raise InfrastructureError(
            f"the judge's clock can't be trusted here: {why}", "Let other programs end and try again."
        )

    def _wrong_reading(self) -> str | None:
        assert self._worker is not None
        readings, round_trips = [], []
        for _ in range(CALLS):
            round_trips.append(self.round_trip())
            call = self._worker.call(0, timeout=10.0, freeze_on_answer=True)
            if int(self._worker.outputs[0].outputs["turns"]) <= 0:
                return "a call left no trace in its output"
            readings.append(Reading(call.inner, call.outer))
        return wrong_reading(Clocks(tuple(readings), tuple(round_trips)))


def wrong_reading(clocks: Clocks) -> str | None:
    """What is wrong with readings of calls that take SECONDS. The shortest counts: a busy machine lengthens readings,
    and nothing shortens one."""
    seconds = min(clocks.seconds)
    if not TOO_SHORT * SECONDS <= seconds <= TOO_LONG * SECONDS:
        return f"a call of {SECONDS * 1e3:g} ms reads {seconds * 1e3:.3f} ms"
    return clocks.disagreement()
