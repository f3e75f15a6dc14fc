"""The machine's own processors as a device: memory files, native workers, AddressSanitizer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.canary import CpuYardstick
from tools.clock import Allowance
from tools.contract import Signature
from tools.experiment import run_confined
from tools.hardware import Hardware, hardware, instruments, measure_hardware, remember
from tools.process import Completed
from tools.records import Kernel
from tools.runner import Failed
from tools.sandbox import Sandbox, detect
from tools.stages import Evidence
from tools.targets.base import Build
from tools.targets.cpu import CpuTarget
from tools.torch_bench import TorchBench
from tools.torch_process import Home
from tools.worker import Worker, WorkerLimits

if TYPE_CHECKING:
    from tools.judge import Judge

MEMORY_SAFE_SECONDS = 0.8
SANITIZED_FACTOR = 10.0
"""A sanitized kernel may take this many times longer."""


class CpuDevice:
    """See `tools.device.Device`."""

    lock = "cpu"
    allowance = Allowance()
    shares_cores = True
    lasting_bytes = 0.0

    def __init__(self) -> None:
        self.target = CpuTarget()
        self.sandbox: Sandbox = detect()
        self.torch = TorchBench(Home("cpu"), None, self.buffers)

    def hardware(self) -> Hardware:
        return hardware()

    def measured_again(self, known: Hardware) -> Hardware:
        best = known.best_of(measure_hardware())
        remember(best)
        return best

    def facts(self) -> dict[str, str]:
        return {}

    def buffers(self, signature: Signature, signatures: Sequence[Signature]) -> WorkloadBuffers:
        return WorkloadBuffers(signature, signatures)

    def worker(self, build: Build, buffers: Sequence[WorkloadBuffers], omp_threads: int | None) -> Worker:
        assert build.library is not None
        return Worker(build.library, buffers, WorkerLimits(omp_threads=omp_threads), self.sandbox)

    def shared_worker(self, buffers: Sequence[WorkloadBuffers]) -> None:
        """None is needed."""

    def prepare(self, buffers: Sequence[WorkloadBuffers], count: int, begun: int = 0) -> None:
        """A worker starts in milliseconds."""

    def dismiss(self) -> None:
        """None was prepared."""

    def sibling_differs(self) -> bool:
        return True

    def flush(self, inputs: WorkloadBuffers, outputs: OutputBuffers) -> None:
        evict = instruments().flush_range
        outputs.flush(evict)
        inputs.flush(evict)

    def inspect(self, worker: Worker) -> None:
        """Threads are welcome here."""

    def memory_safe(self, judge: Judge, kernel: Kernel, build: Build, evidence: Evidence) -> None:
        """The sanitizer build over all workloads, given inputs first; a torch kernel in guarded memory."""
        if build.language == "torch":
            self.torch.memory_safe(judge, build, evidence)
            return
        build = judge.build_variant(kernel, "asan")
        evidence.command = build.report.command
        if build.library is None:
            message = f"its sanitizer build fails, though the release build does not: {build.message}"
            raise Failed("compile_error", message, diagnostics=build.report.diagnostics)
        plan = [(workload, "given") for workload in range(len(judge.weights))]
        must = len(plan)
        plan += [(w, name) for name in judge.reference.distributions[1:] for w in range(len(judge.weights))]
        begin = time.perf_counter()
        done: list[JsonValue] = []
        worker = Worker(build.library, judge.buffers, WorkerLimits(), self.sandbox, "asan")
        with judge.runner_of(worker, SANITIZED_FACTOR) as runner:
            for number, (workload, distribution) in enumerate(plan):
                if number >= must and time.perf_counter() - begin > MEMORY_SAFE_SECONDS:
                    break
                runner.call_unclocked(judge.content.fresh(workload, distribution))
                done.append(f"{judge.names[workload]}/{distribution}")
        evidence.details["checked"] = done

    def look_early(self, judge: Judge, kernel: Kernel) -> None:
        """The sanitizer build and its runs would take the cores that the kernel is checked on."""

    def run_program(self, program: Path, seconds: float) -> Completed:
        return run_confined(self.sandbox, program, seconds, {})

    def yardstick(self) -> CpuYardstick:
        return CpuYardstick(self.target, self.sandbox)

    def close(self) -> None:
        """End what torch kernels needed; nothing else is to be given back."""
        self.torch.close()
