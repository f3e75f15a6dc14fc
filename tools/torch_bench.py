"""All that a device needs for torch kernels: builds, workers, a worker without a kernel to compare them with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import JsonValue

from tools import torch_look
from tools.buffers import WorkloadBuffers
from tools.contract import Signature, Tensor
from tools.cuda_look import tell
from tools.cuda_sanitizer import Outcome
from tools.errors import InfrastructureError
from tools.records import Kernel
from tools.stages import Evidence
from tools.targets.base import Build
from tools.torch_build import build_torch
from tools.torch_call import ModelCall, plain_call
from tools.torch_cuda_process import TorchCudaWorker
from tools.torch_process import Home, Purpose, TorchWorker
from tools.torch_trace import require_own_work
from tools.worker import WorkerFailed

if TYPE_CHECKING:
    from tools.judge import Judge

GUARDED_FACTOR = 10.0
"""A call in guarded memory may take this many times longer."""
TRACE_SECONDS = 60.0
_SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype="float32", shape=(1,)),), outputs=(Tensor(name="out", dtype="float32", shape=(1,)),)
)
MakeBuffers = Callable[[Signature, Sequence[Signature]], WorkloadBuffers]
NOT_COVERED: dict[str, str] = {
    "cpu": "reads outside of arrays, and writes outside of memory that the kernel did not get from PyTorch",
    "cuda": "reads outside of arrays, races, and writes outside of memory that the kernel did not get from PyTorch",
}
"""What guarded memory does not show."""


class TorchBench:
    """Torch kernels on one device. Nothing is started before the first of them. Close it."""

    def __init__(self, home: Home, architecture: str | None, make: MakeBuffers | None) -> None:
        """`make` is None where there is no device: building is all that works then."""
        self._home, self._architecture, self._make = home, architecture, make
        self._idle: TorchWorker | None = None
        self._idle_buffers: list[WorkloadBuffers] = []
        self._known: frozenset[str] = frozenset()
        self._threads = 0
        self._unwatched: list[Outcome] = []
        """How the sanitizers ended on this machine before they came to a kernel."""

    def build(self, kernel: Kernel, calls: Sequence[ModelCall], libraries: Sequence[str]) -> Build:
        """Build it, or return the cached build. Raises KernelError and InfrastructureError."""
        return build_torch(kernel, calls, self._home, self._architecture, libraries)

    def worker(
        self,
        build: Build,
        calls: Sequence[ModelCall],
        buffers: Sequence[WorkloadBuffers],
        threads: int | None,
        purpose: Purpose = "judge",
    ) -> TorchWorker:
        """A new worker that holds the kernel. Raises WorkerFailed and InfrastructureError."""
        assert build.library is not None
        self._start_idle()
        kind = TorchCudaWorker if self._home.target == "cuda" else TorchWorker
        return kind(build.library, calls, buffers, self._home, threads=threads, purpose=purpose, known=self._known)

    @property
    def threads(self) -> int:
        """Of a worker without a kernel."""
        return self._threads

    def round_trip(self) -> float:
        """Seconds that a call takes beside `forward`. InfrastructureError when the judge's own worker is gone."""
        self._start_idle()
        assert self._idle is not None
        try:
            self._idle.pause()
            call = self._idle.call(0, timeout=20.0, freeze_on_answer=True)
        except WorkerFailed as failure:
            self.close()
            raise InfrastructureError(f"the judge's own torch worker failed: it {failure.message}") from failure
        return call.outer - call.inner

    def close(self) -> None:
        """End the worker without a kernel; the server stays for the next task."""
        if self._idle is not None:
            self._idle.close()
            self._idle = None
        for buffers in self._idle_buffers:
            buffers.close()
        self._idle_buffers.clear()

    def memory_safe(self, judge: Judge, build: Build, evidence: Evidence) -> None:
        """One call on each workload in guarded memory. Raises Failed and WorkerFailed."""
        done: list[JsonValue] = []
        worker = self.worker(build, judge.calls, judge.buffers, None, "guard")
        with judge.runner_of(worker, GUARDED_FACTOR) as runner:
            for workload, name in enumerate(judge.names):
                runner.call_unclocked(judge.content.fresh(workload))
                runner.verify_last()
                done.append(f"{name}/guarded")
        evidence.details.update({"checked": done, "not_covered": NOT_COVERED[self._home.target]})
        if self._home.target == "cuda":
            self._watch(judge, build, evidence)

    def _watch(self, judge: Judge, build: Build, evidence: Evidence) -> None:
        """The sanitizers on the smallest workload. Raises Failed for what they find."""
        assert build.library is not None
        sizes = [sum(tensor.nbytes for tensor in signature.input_tensors) for signature in judge.signatures]
        index = sizes.index(min(sizes))
        name = judge.names[index]
        tools = torch_look.wanted_tools()
        recorded = torch_look.Recorded(build.library, judge.calls[index], judge.content.drawn_beside(index))
        outcomes = self._unwatched or (torch_look.watched(recorded, self._home, tools) if tools else [])
        if torch_look.never_started(outcomes):
            self._unwatched = outcomes
        done = evidence.details["checked"]
        tell(evidence, [[name]] * len(outcomes), outcomes)
        seen = evidence.details["checked"]
        assert isinstance(done, list) and isinstance(seen, list)
        evidence.details["checked"] = [*done, *seen]
        evidence.details["not_covered"] = torch_look.unseen(outcomes, judge.names, name)

    def attribute(self, judge: Judge, kernel: Kernel, build: Build, evidence: Evidence) -> None:
        """Look at what runs below the dispatcher. Raises Failed and WorkerFailed."""
        begin = time.perf_counter()
        with self.tracing(judge, build) as worker:
            for workload in range(len(judge.names)):
                judge.content.fresh(workload)
            traced = worker.trace(TRACE_SECONDS)
        shares = require_own_work(kernel, judge.names, traced, judge.source.libraries)
        evidence.details["device_kernels"] = [
            {"workload": name, **{key: seen.get(key) for key in ("kernels", "operators")}}
            for name, seen in zip(judge.names, traced, strict=True)
        ]
        if trouble := next((str(seen["trouble"]) for seen in traced if "trouble" in seen), ""):
            evidence.details["could_not_check"] = f"the profiler does not start: {trouble}"
        elif self._home.target == "cuda" and not any(seen.get("kernels") for seen in traced):
            evidence.details["could_not_check"] = "the profiler saw nothing run on the device"
        evidence.details["own_share_of_device_time"] = shares
        evidence.details["trace_seconds"] = time.perf_counter() - begin

    @contextmanager
    def tracing(self, judge: Judge, build: Build) -> Iterator[TorchWorker]:
        """A worker whose kernel runs under the profiler. Raises WorkerFailed and InfrastructureError."""
        worker = self.worker(build, judge.calls, judge.buffers, None, "trace")
        try:
            yield worker
        finally:
            worker.close()

    def _start_idle(self) -> None:
        if self._idle is not None:
            return
        assert self._make is not None
        buffers = self._make(_SIGNATURE, [_SIGNATURE])
        self._idle_buffers.append(buffers)
        buffers.write({"x": np.ones(1, np.float32)})
        kind = TorchCudaWorker if self._home.target == "cuda" else TorchWorker
        try:
            self._idle = kind(Path("/nonexistent"), [plain_call(_SIGNATURE)], [buffers], self._home, purpose="nothing")
            self._idle.call(0, timeout=30.0, freeze_on_answer=True)
        except WorkerFailed as failure:
            self.close()
            raise InfrastructureError(
                f"the judge's own torch worker failed: it {failure.message}: {failure.output[-300:]}",
                "Run `warpsmith doctor`.",
            ) from failure
        self._known, self._threads = self._idle.all_mapped(), self._idle.threads()
