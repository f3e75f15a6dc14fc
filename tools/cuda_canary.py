"""The yardstick of a GPU: a kernel whose duration is known, and a call in which nothing happens."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np

from tools.buffers import WorkloadBuffers
from tools.canary import CALLS, SECONDS, TOO_LONG, TOO_SHORT, TRIES
from tools.clock import Allowance, Clocks, Reading
from tools.contract import Signature, Tensor, task_header
from tools.errors import InfrastructureError
from tools.records import Kernel
from tools.targets.base import Build, Target
from tools.worker import Worker, WorkerFailed

_SOURCE = """
#include "task.h"
__global__ void wait(const int64_t* nanoseconds, int64_t* turns) {
    uint64_t now, end;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    end = now + *nanoseconds;
    int64_t count = 1;
    for (; now < end; ++count) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    *turns = count;
}
extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    wait<<<1, 1, 0, stream>>>(args.nanoseconds, args.turns);
}
"""
_SIGNATURE = Signature(
    inputs=(Tensor(name="nanoseconds", dtype="int64", shape=()),),
    outputs=(Tensor(name="turns", dtype="int64", shape=()),),
)
_NOTHING, _CANARY = 0, 1
Make = Callable[[Signature, Sequence[Signature]], WorkloadBuffers]
Start = Callable[[Build, Sequence[WorkloadBuffers]], Worker]


class CudaYardstick:
    """See `tools.device.Yardstick`. Close it."""

    def __init__(self, target: Target, make: Make, start: Start, allowance: Allowance) -> None:
        """Raises InfrastructureError when the judge reads anything but 3 ms."""
        self._allowance = allowance
        header = task_header("canary", [_SIGNATURE, _SIGNATURE])
        build = target.compile_kernel(Kernel(language="cuda", files={"kernel.cu": _SOURCE}), header)
        if build.library is None:
            raise InfrastructureError(f"the canary kernel does not build: {build.message}", "Run `warpsmith doctor`.")
        self._buffers: list[WorkloadBuffers] = []
        self._worker: Worker | None = None
        try:
            for seconds in (0.0, SECONDS):
                self._buffers.append(make(_SIGNATURE, [_SIGNATURE, _SIGNATURE]))
                self._buffers[-1].write({"nanoseconds": np.array(round(seconds * 1e9), np.int64)})
            self._worker = start(build, self._buffers)
            self._require_true_clock()
            self.libraries = frozenset(self._worker.mapped_libraries())
            self.threads = self._worker.threads()
        except WorkerFailed as failure:
            self.close()
            raise InfrastructureError(
                f"the canary kernel failed: it {failure.message}: {failure.output[-300:]}", "Run `warpsmith doctor`."
            ) from failure
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
        for buffers in self._buffers:
            buffers.close()

    def round_trip(self) -> float:
        """Seconds that a call takes beside the kernel's own work. InfrastructureError when the worker is gone."""
        return self._call(_NOTHING).outer

    def _call(self, workload: int) -> Reading:
        assert self._worker is not None
        try:
            self._worker.pause()
            call = self._worker.call(workload, timeout=10.0, freeze_on_answer=True)
        except WorkerFailed as failure:
            raise InfrastructureError(f"the judge's own worker failed: it {failure.message}") from failure
        return Reading(call.inner, call.outer)

    def _require_true_clock(self) -> None:
        why = None
        for _ in range(TRIES):
            why = self._wrong_reading()
            if why is None:
                return
        raise InfrastructureError(
            f"the judge's clock can't be trusted here: {why}", "Let other programs end and try again."
        )

    def _wrong_reading(self) -> str | None:
        clocks, turns = self.readings(SECONDS)
        return "a call left no trace in its output" if turns <= 0 else wrong_reading(clocks)

    def readings(self, seconds: float) -> tuple[Clocks, int]:
        """Calls that take so long, by both clocks, and how often the last of them looked at the time."""
        assert self._worker is not None
        self._buffers[_CANARY].write({"nanoseconds": np.array(round(seconds * 1e9), np.int64)})
        round_trips = [self.round_trip() for _ in range(2 * CALLS)]
        readings = [self._call(_CANARY) for _ in range(CALLS)]
        outputs = self._worker.outputs[_CANARY]
        outputs.fetch()
        return Clocks(tuple(readings), tuple(round_trips), self._allowance), int(outputs.outputs["turns"])


def wrong_reading(clocks: Clocks) -> str | None:
    """What is wrong with readings of calls that take SECONDS: the median counts, as it does of a kernel's."""
    seconds = statistics.median(clocks.seconds)
    if not TOO_SHORT * SECONDS <= seconds <= TOO_LONG * SECONDS:
        return f"a call of {SECONDS * 1e3:g} ms reads {seconds * 1e3:.3f} ms"
    return clocks.disagreement()
