"""One GPU as a device of the judge: PyCUDA's primary context in this process, workers with contexts of their own.

Not covered: several GPUs in one judge (`tools.targets.device_choice` says which it takes); host code of a kernel that
falsifies the events of its own process by less than `tools.clock.Rows` can tell, which only `floor_seconds` bounds.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tools import cuda_peaks, cuda_programs
from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.clock import Allowance
from tools.contract import Signature
from tools.cuda_buffers import DeviceInputs
from tools.cuda_canary import CudaYardstick
from tools.cuda_content import ContentKernels
from tools.cuda_flush import ColdCache
from tools.cuda_look import CudaLook
from tools.cuda_memory import call
from tools.cuda_outputs import OutputPool, outputs_for
from tools.cuda_process import (
    CudaWorker,
    Host,
    device_files,
    driver_environment,
    end_together,
    wait_until_left,
)
from tools.device_lock import device_lock
from tools.errors import InfrastructureError
from tools.experiment import run_confined
from tools.hardware import Hardware
from tools.nvml import Monitor
from tools.process import Completed, is_running
from tools.records import Kernel
from tools.runner import Failed
from tools.sandbox import Sandbox, detect
from tools.stages import Evidence
from tools.targets.base import Build
from tools.targets.cuda import CudaTarget
from tools.targets.cuda_toolkit import PYCUDA_ADVICE
from tools.targets.device_choice import take_chosen_device
from tools.torch_bench import TorchBench
from tools.torch_process import Home, TorchWorker
from tools.worker import Worker

if TYPE_CHECKING:
    import pycuda.driver as cuda

    from tools.judge import Judge
else:
    from tools.cuda_memory import cuda


class CudaDevice:
    """See `tools.device.Device`."""

    allowance = Allowance(coarse=True, slack=250e-6)
    """Two processes are woken around each call, and one is an interpreter: that varies by a tenth of a millisecond."""
    shares_cores = False

    def __init__(self) -> None:
        """Raises InfrastructureError when CUDA does not start."""
        take_chosen_device(os.environ)
        try:
            cuda.init()
            self._device = cuda.Device(0)
            self._context = self._device.retain_primary_context()
            self._context.push()
        except ImportError as error:
            raise InfrastructureError(f"PyCUDA does not load: {error}", PYCUDA_ADVICE) from error
        except cuda.Error as error:
            raise InfrastructureError(f"CUDA does not start: {error}", "Run `warpsmith doctor`.") from error
        self._entered = True
        self.target = CudaTarget()
        self.sandbox: Sandbox = detect()
        self.uuid = _first_uuid()
        self.monitor = _monitor(self.uuid)
        instruments = cuda_programs.instruments(self.target.architecture)
        self._cold = ColdCache(str(instruments))
        self.host = Host(self.uuid, instruments, self.sandbox, self.monitor, self._cold)
        self.lasting_bytes = float(self._device.get_attribute(cuda.device_attribute.L2_CACHE_SIZE))
        self._stream = cuda.Stream()
        self._flushed = cuda.mem_alloc(self._cold.size)
        processors = self._device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT)
        self._content = ContentKernels(cuda_programs.content(self.target.architecture), processors)
        self._yardstick: CudaYardstick | None = None
        home = Home("cuda", self.uuid, instruments, self.monitor, self._cold)
        self.torch = TorchBench(home, self.target.architecture, self.buffers)
        self._waiting: list[CudaWorker] = []
        self._numbers: list[int] = []
        """Of the outputs for the workers that are prepared for one use, in their order; none where none was."""
        self._pools: dict[tuple[WorkloadBuffers, ...], OutputPool] = {}

    @property
    def lock(self) -> str:
        return self.uuid

    def hardware(self) -> Hardware:
        """The figures kept for this device, raised to what is seen now."""
        known = cuda_peaks.known(self.uuid)
        with device_lock(self.lock):
            return self._measured(known)

    def measured_again(self, known: Hardware) -> Hardware:
        return self._measured(known)

    def _measured(self, known: Hardware | None) -> Hardware:
        seen = cuda_peaks.measure(self._device, self.host.instruments, self.target.toolchain()["compiler"])
        best = known.best_of(seen) if known is not None else seen
        if best != known:
            cuda_peaks.keep(self.uuid, best)
        return best

    def facts(self) -> dict[str, str]:
        driver = self.monitor.driver() if self.monitor is not None else ""
        return {"uuid": self.uuid, **({"driver": driver} if driver else {})}

    def buffers(self, signature: Signature, signatures: Sequence[Signature]) -> DeviceInputs:
        return DeviceInputs(signature, signatures, 0, self._content)

    def worker(self, build: Build, buffers: Sequence[WorkloadBuffers], omp_threads: int | None) -> Worker:
        del omp_threads
        assert build.library is not None
        worker = self.shared_worker(buffers)
        worker.load(build.library)
        return worker

    def shared_worker(self, buffers: Sequence[WorkloadBuffers]) -> CudaWorker:
        waiting = bool(self._waiting) and self._waiting[0].buffers == tuple(buffers)
        return self._waiting.pop(0) if waiting else CudaWorker(buffers, self.host, self._outputs(buffers))

    def prepare(self, buffers: Sequence[WorkloadBuffers], count: int, begun: int = 0) -> None:
        """They come up side by side, and beside a compiler: each takes half a second. Where two race twice, they change
        their outputs in between."""
        pool = self._outputs(buffers)
        if not begun:
            self._numbers = pool.changing()
        for number in self._numbers[max(begun, len(self._waiting)) : count]:
            self._waiting.append(CudaWorker(buffers, self.host, pool, number))

    def _outputs(self, buffers: Sequence[WorkloadBuffers]) -> OutputPool:
        key = tuple(buffers)
        if key not in self._pools:
            self._pools[key] = OutputPool(partial(outputs_for, key, 0))
        return self._pools[key]

    def dismiss(self) -> None:
        end_together(self._waiting)
        self._waiting.clear()
        self._numbers.clear()

    def sibling_differs(self) -> bool:
        return False

    def flush(self, inputs: WorkloadBuffers, outputs: OutputBuffers) -> None:
        """Overwrite twice the second-level cache, after lines that were to persist in it have lost that right, and read
        as much: a kernel that finds the cache full of what was only written has to wait until that is written back."""
        del inputs, outputs
        call("cuCtxResetPersistingL2Cache")
        cuda.memset_d8_async(self._flushed, secrets.randbits(8), self._cold.size, self._stream)
        self._cold.read(self._stream.handle)
        self._context.synchronize()

    def inspect(self, worker: Worker) -> None:
        """The host's part of a kernel is to launch: a thread of its own could only work behind the clock's back."""
        bench = self.torch if isinstance(worker, TorchWorker) else self._yardstick
        surplus = worker.threads() - bench.threads if bench is not None else 0
        if surplus > 0:
            raise Failed("forbidden_syscall", f"started {surplus} threads, and a CUDA kernel needs none")

    def memory_safe(self, judge: Judge, kernel: Kernel, build: Build, evidence: Evidence) -> None:
        if build.language == "torch":
            self.torch.memory_safe(judge, build, evidence)
            return
        with CudaLook(self.host, judge, kernel) as look:
            look.load(build)
            look.report(evidence)

    def look_early(self, judge: Judge, kernel: Kernel) -> CudaLook | None:
        return None if kernel.language == "torch" else CudaLook(self.host, judge, kernel)

    def run_program(self, program: Path, seconds: float) -> Completed:
        here = self.monitor.processes() if self.monitor is not None else None
        environment = driver_environment(self.uuid)
        ran = run_confined(self.sandbox, program, seconds, environment, device_files())
        if self.monitor is not None and here is not None:
            wait_until_left(self.monitor, lambda computing: all(pid in here or is_running(pid) for pid in computing))
        return ran

    def yardstick(self) -> CudaYardstick:
        with device_lock(self.lock):
            self._yardstick = CudaYardstick(
                self.target,
                self.buffers,
                lambda build, buffers: self.worker(build, buffers, None),
                self.allowance,
            )
        return self._yardstick

    def close(self) -> None:
        """Leave the context; the primary one is given back with it."""
        self.dismiss()
        self.torch.close()
        if self._entered:
            self._entered = False
            for pool in self._pools.values():
                pool.close()
            self._flushed.free()
            self._cold.close()
            self._context.pop()


def _first_uuid() -> str:
    raw = (ctypes.c_ubyte * 16)()
    call("cuDeviceGetUuid_v2", raw, ctypes.c_int(0))
    text = bytes(raw).hex()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _monitor(uuid: str) -> Monitor | None:
    try:
        return Monitor(uuid)
    except OSError:
        return None
