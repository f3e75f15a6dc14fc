"""The judge's handle on a worker for torch kernels (`tools.torch_worker`), on this machine's processors or on a GPU."""

from __future__ import annotations

import json
import mmap
import os
import re
import secrets
import signal
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.clock import Allowance
from tools.contract import Scalar
from tools.cuda_flush import ColdCache
from tools.errors import InfrastructureError
from tools.messages import REQUEST, Kind
from tools.nvml import Monitor
from tools.process import Leader, is_running
from tools.records import Diagnostic, Reason, TargetName
from tools.sandbox import Confinement, Sandbox
from tools.targets.cuda_toolkit import find_toolkit
from tools.torch_call import ModelCall
from tools.torch_host import device_paths, driver_folder, forked_sandbox, python_folders, torch_server
from tools.wire import Message, WorkerFailed
from tools.worker import Call, Launch, Worker
from tools.worker_limits import WorkerLimits

Purpose = Literal["judge", "guard", "trace", "nothing"]
"""Why a worker runs a kernel: for its results and times; in guarded memory; under the profiler; or no kernel at all."""
UNCLOCKED = 1 << 31
REPORT_BYTES = 1 << 20
GONE_SECONDS = 10.0
LIMITS: Mapping[TargetName, WorkerLimits] = {
    "cpu": WorkerLimits(memory=4 << 30, start_timeout=60.0),
    "cuda": WorkerLimits(memory=16 << 30, start_timeout=60.0),
}
"""Memory beside the interpreter's own; a start imports the kernel's file and makes its model."""
SLACK = 200e-6
"""Seconds that an interpreter may take on the CPU beside a round trip: it looks at what was returned."""
COLD_COPY = 0.5
"""By how much a copy of results into memory that is in no cache may take longer than the quickest."""
VENDOR = re.compile(
    r"lib(cublas|cublasLt|cudnn|cufft|curand|cusparse|cusparseLt|cusolver|cutensor|nvblas|mkl|openblas|blas|cblas|blis|"
    r"lapack|dnnl|onednn|fftw|gsl|atlas|flexiblas)\w*"
)
"""Libraries that compute what tasks ask for. What PyTorch itself has mapped does not count: its kernels' names do."""
REASONS: frozenset[Reason] = frozenset(
    {
        *("framework_op", "wrong_result", "crashed", "exited", "out_of_memory", "forbidden_syscall"),
        *("no_entry", "memory_error"),
    }
)
"""What a worker's own report may say."""


@dataclass(frozen=True)
class Home:
    """Where torch workers run."""

    target: TargetName
    uuid: str | None = None
    """Of the GPU."""
    instruments: Path | None = None
    monitor: Monitor | None = None
    cold: ColdCache | None = None
    """Of the judge, on a GPU: workers have one of their own."""


class TorchWorker(Worker):
    """A `Worker` whose kernel is a `ModelNew`. `Call.inner` is the time of `forward` alone."""

    def __init__(
        self,
        folder: Path,
        calls: Sequence[ModelCall],
        buffers: Sequence[WorkloadBuffers],
        home: Home,
        *,
        threads: int | None = None,
        purpose: Purpose = "judge",
        known: frozenset[str] = frozenset(),
    ) -> None:
        """`folder` is the build, `known` the libraries that a worker without a kernel has mapped."""
        self._home, self._calls, self._purpose = home, calls, purpose
        self._own_threads = threads or (1 if home.target == "cuda" else os.cpu_count() or 1)
        self._known = known
        self._report_fd = os.memfd_create("report", os.MFD_CLOEXEC)
        os.truncate(self._report_fd, REPORT_BYTES)
        self._report = mmap.mmap(self._report_fd, REPORT_BYTES)
        self._names = {path.name for path in folder.rglob("*.so")} if purpose != "nothing" else set()
        super().__init__(folder, buffers, LIMITS[home.target], forked_sandbox())

    @property
    def allowance(self) -> Allowance:
        """What of a call's outer span counts as the round trip's."""
        slowest = max((_copy_seconds(each) for each in self.outputs), default=0.0)
        return Allowance(seconds=SLACK + COLD_COPY * slowest, slack=SLACK)

    def mapped_libraries(self) -> tuple[str, ...]:
        """Of the files mapped executable, those that compute for others and that no worker without a kernel has."""
        mapped = super().mapped_libraries()
        return tuple(
            name for name in mapped if VENDOR.match(name) and name not in self._known and name not in self._names
        )

    def all_mapped(self) -> frozenset[str]:
        return frozenset(super().mapped_libraries())

    def trace(self, timeout: float) -> list[dict[str, Any]]:
        """What the profiler in the worker saw of each workload; the worker's own word, so good for refusing only."""
        self.resume()
        self._ask(-2, timeout, False)
        told = self._told()
        traced = told.get("traced")
        if not isinstance(traced, list) or len(traced) != len(self._buffers):
            self._fail(WorkerFailed("forged_answer", "sent an answer that nothing had asked for", self._final_output()))
        return [each if isinstance(each, dict) else {} for each in traced]

    def close(self) -> None:
        """Kill it; returns when it is gone, also where the server was first and left it to itself."""
        pid = self.pid
        if pid and self._pidfd in self._fds:
            self._signal(signal.SIGKILL)
        super().close()
        deadline = time.monotonic() + GONE_SECONDS
        while pid and is_running(pid):
            if time.monotonic() > deadline:
                raise InfrastructureError("a killed process does not end", "It may be stuck in the kernel; see `ps`.")
            time.sleep(0.0005)
        if self._report_fd >= 0:
            os.close(self._report_fd)
            self._report_fd = -1

    # ------------------------------------------------------------------------------------------------------- start

    def _launch(self, library: Path, requests: int, answers: int) -> Launch:  # noqa: ARG002 - the channel is handed over apart
        shared, workloads = self._plan()
        plan = {
            "device": self._home.target,
            "folder": str(library),
            "purpose": self._purpose,
            "threads": self._own_threads,
            "instruments": str(self._home.instruments or ""),
            "workloads": workloads,
        }
        data = json.dumps(plan).encode()
        readable, devices = device_paths(self._home.target)
        own = () if self._purpose == "nothing" else (library,)
        instruments = (self._home.instruments,) if self._home.instruments is not None else ()
        return Launch(
            command=("torch",),
            policy=Confinement(
                read_only=(*python_folders(), *own, *instruments, *readable),
                devices=devices,
                open_files=1024,
                proc=True,
                observed=True,  # its parent is the server
            ),
            environment=self._environment(library),
            fds=tuple(shared),
            plan=struct.pack("=I", len(data)) + data,
            opens_files=True,  # an interpreter does, at any time; there is nothing but its own to open
        )

    def _environment(self, folder: Path) -> dict[str, str]:
        made = folder / "made"
        found = driver_folder()
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": "/nonexistent",
            "LC_ALL": "C.UTF-8",
            "OMP_NUM_THREADS": str(self._own_threads),
            "TRITON_CACHE_DIR": str(made / "triton"),
            "CUPY_CACHE_DIR": str(made / "cupy"),
            "CUPY_CACHE_SAVE_CUDA_SOURCE": "0",
            **({"TRITON_LIBCUDA_PATH": found} if found else {}),
            **({"CUDA_PATH": str(find_toolkit().root)} if self._home.target == "cuda" else {}),
        }

    def _plan(self) -> tuple[list[int], list[dict[str, Any]]]:
        """Descriptors, and the workloads with those by their number behind the channel's four."""
        shared: list[int] = []
        workloads = []
        for inputs, outputs, call in zip(self._buffers, self.outputs, self._calls, strict=True):
            parts, sizes = self._parts(inputs, outputs)
            numbers = {}
            for name, descriptor in parts.items():
                numbers[name] = 4 + len(shared)
                shared.append(descriptor)
            workloads.append({**numbers, "sizes": sizes, **_described(inputs, outputs, call)})
        return shared, workloads

    def _parts(self, inputs: WorkloadBuffers, outputs: OutputBuffers) -> tuple[dict[str, int], dict[str, int]]:
        fds = {"inputs": inputs.read_only_fd, "outputs": outputs.fd, "host": inputs.read_only_fd}
        return fds, {}

    def _begin(self, launch: Launch, sandbox: Sandbox, channel: tuple[int, int], output: int) -> Leader:
        server = torch_server(self._home.target, self._home.uuid)
        fds = (*channel, output, self._report_fd, *launch.fds)
        return server.fork("torch_worker", sandbox, launch.policy, launch.environment, fds)

    # -------------------------------------------------------------------------------------------------------- talk

    def _request(self, nonce: int, workload: int) -> bytes:
        return REQUEST.pack(nonce, workload, 0 if self.clocked or workload < 0 else UNCLOCKED)

    def _reading(self, workload: int, message: Message, outer: float) -> Call:
        if workload < 0:
            return Call(0.0, outer)
        return Call(message.value * 1e-9, outer - _copy_seconds(self.outputs[workload]))

    def _explain(self, message: Message | None, output: str) -> WorkerFailed:
        if message is None or message.kind != Kind.BROKEN:
            return super()._explain(message, output)
        told = self._told()
        if told.get("reason") not in REASONS or not isinstance(told.get("message"), str):
            return WorkerFailed("forged_answer", "sent an answer that nothing had asked for", output)
        file, line = told.get("file"), told.get("line")
        diagnostics: list[Diagnostic] = []
        if isinstance(file, str) and isinstance(line, int):
            diagnostics.append(Diagnostic(severity="error", message=told["message"][:1000], file=file, line=line))
        return WorkerFailed(told["reason"], told["message"][:1000], output, diagnostics=diagnostics)

    def _told(self) -> dict[str, Any]:
        """The report as it stands; empty when it is none."""
        (size,) = struct.unpack_from("=I", self._report)
        try:
            told = json.loads(self._report[4 : 4 + min(size, REPORT_BYTES - 4)])
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}


def _described(inputs: WorkloadBuffers, outputs: OutputBuffers, call: ModelCall) -> dict[str, Any]:
    """What a worker has to know of one workload."""
    slots = {slot.name: index for index, slot in enumerate(inputs.slots) if slot.kind in ("input", "output")}
    ctypes = {item.name: item.ctype for item in inputs.signature.inputs if isinstance(item, Scalar)}
    return {
        "input_spans": {name: (span.offset, span.bytes) for name, span in inputs.spans.items()},
        "output_spans": {name: (span.offset, span.bytes) for name, span in outputs.spans.items()},
        "output_bytes": max((span.page_end for span in outputs.spans.values()), default=0),
        "scalars": {name: (inputs.spans[name].offset, ctype) for name, ctype in ctypes.items()},
        "tensors": call.tensors,
        "slots": slots,
        "call": call.model_dump(mode="json", exclude={"signature"}),
    }


def _copy_seconds(outputs: OutputBuffers) -> float:
    """The shortest time of a few copies into this memory, measured once."""
    known = getattr(outputs, "copy_seconds", None)
    if isinstance(known, float):
        return known
    sizes = [view.nbytes for view in outputs.outputs.values()]
    scratch = np.full(max(sizes, default=0), secrets.randbits(7), np.uint8)
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        for view in outputs.outputs.values():
            view.reshape(-1).view(np.uint8)[:] = scratch[: view.nbytes]
        best = min(best, time.perf_counter() - begin)
    outputs.copy_seconds = best  # type: ignore[attr-defined]
    return best
