"""The judge of one task on one target: it owns the reference, the secret seeds, the expected values and the clocks.

Lives in the service process. The gauntlet's stages are in `tools.gauntlet`, the timing in `tools.measure`.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from tools.audit import audit
from tools.baseline import time_baselines
from tools.buffers import WorkloadBuffers
from tools.compilers import Compilers
from tools.content import ContentSource
from tools.contract import task_header
from tools.cpu_device import CpuDevice
from tools.device import Device, Look, SharedWorker, Yardstick
from tools.device_lock import device_lock
from tools.errors import InfrastructureError
from tools.facts import TaskFacts
from tools.gauntlet import Gauntlet
from tools.hardware import Hardware, arithmetic_of, limit_seconds
from tools.neighbours import Patience, patience_seconds
from tools.opening import Laps, bounded_memory
from tools.quick import quick_results
from tools.records import BuildReport, Kernel, QuickResult, Unjudged, Verdict
from tools.reference import Reference, load_reference
from tools.runner import Means, Rival, Runner, Tenant
from tools.targets.base import Build, Target, Variant
from tools.task import TaskSource
from tools.task_facts import task_facts
from tools.torch_call import ModelCall
from tools.torch_process import TorchWorker
from tools.worker import Worker, WorkerFailed

AnyRunner = TypeVar("AnyRunner", bound=Runner)
Progress = Callable[[str], None]
"""Told of the stage that begins ("correct", "time"...)."""

TIMEOUT_LEAST = 5.0
TIMEOUT_FACTOR = 100.0
TIMEOUT_MOST = 60.0
BYTES_MARGIN = 0.8
"""A time under this fraction of the time to move the task's bytes at the peak rate is impossible. The peak is the best
of many patterns, yet another program on the host may have slowed all of them."""
FLOPS_MARGIN = 0.25
"""The same for arithmetic. Honest algorithms do fewer operations than the task's definition (Winograd's convolution
four times fewer, Strassen's product up to half), so only what no algorithm explains is refused."""


def open_task(source: TaskSource, target: str = "cpu", progress: Progress | None = None) -> Judge:
    """Load and audit the task, measure the hardware (cached), time the baseline.

    Raises TaskError and InfrastructureError.
    """
    judge = load_task(source, target, progress)
    try:
        judge.open()
    except BaseException:
        judge.close()
        raise
    return judge


def load_task(source: TaskSource, target: str = "cpu", progress: Progress | None = None) -> Judge:
    """Load the task only as far as building needs it: the rest is done when something is to be judged, so that a
    kernel that does not compile is told so at once. Raises TaskError and InfrastructureError."""
    return Judge(source, _device(target), progress or (lambda _: None))


def _device(target: str) -> Device:
    if target == "cpu":
        return CpuDevice()
    if target == "cuda":
        from tools.cuda_device import CudaDevice

        return CudaDevice()
    raise InfrastructureError(f"there is no target `{target}` here", "Use `cpu` or `cuda`.")


class Judge:
    """A task that is loaded and, since `open`, ready to judge. Close it (context manager) to give its memory back.

    For profilers, when it is open: `source`, `reference`, `target`, `header`, `facts`, `hardware`, `content` and
    `buffers` (one `WorkloadBuffers` a workload), `build_variant(kernel, "profile")`, `runner(build)`.
    """

    facts: TaskFacts

    def __init__(self, source: TaskSource, device: Device, progress: Progress) -> None:
        """The device is the judge's from now on: it closes it."""
        self.source = source
        self.device = device
        self.target: Target = device.target
        self.progress = progress
        self.patience = Patience(patience_seconds())
        self.buffers: list[WorkloadBuffers] = []
        self.compilers = Compilers(lambda kernel: self._compile(kernel, "release"))
        """For many builds at once; the target's compiler takes several threads."""
        self._yardstick: Yardstick | None = None
        self._is_open = False
        try:
            with bounded_memory():
                self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        self.progress("reference")
        with self._computing():
            self.reference: Reference = load_reference(self.source, self.target.name)
        self.names = tuple(workload.name for workload in self.reference.workloads)
        self.weights = tuple(workload.weight for workload in self.reference.workloads)
        self.signatures = [self.reference.signature(index) for index in range(len(self.names))]
        self.header = task_header(self.source.name, self.signatures)

    def open(self) -> dict[str, float]:
        """Audit the task, measure the hardware (cached), time the baseline: seconds of each. Empty when that was done
        before. Raises TaskError and InfrastructureError; it may be tried again."""
        if self._is_open:
            return {}
        took = Laps(self.progress)
        try:
            with bounded_memory():
                self._open(took)
        except BaseException:
            self._give_back()
            raise
        self._is_open = True
        return took.seconds

    def _open(self, took: Laps) -> None:
        with took.lap("audit"), self._computing():
            notes = (*self.reference.notes, *audit(self.reference, secrets.randbits(32)))
        with took.lap("hardware"):
            self.hardware: Hardware = self.device.hardware()
            self._yardstick = self.device.yardstick()
            self.buffers += [self.device.buffers(signature, self.signatures) for signature in self.signatures]
            self.content = ContentSource(self.reference, self.buffers, self.source.policy)
        with took.lap("baseline"), self.lock():
            self._baselines, more = time_baselines(self.reference, self.content, self.device.lock)
        self.baseline_seconds = [baseline.seconds for baseline in self._baselines]
        self.facts = task_facts(self, self._baselines, (*notes, *more))

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the shared memory and end the yardstick. Other workers end with the calls that started them."""
        self._give_back()
        self.compilers.close()
        self.device.close()

    def _give_back(self) -> None:
        self._is_open = False
        if self._yardstick is not None:
            self._yardstick.close()
            self._yardstick = None
        for buffers in self.buffers:
            buffers.close()
        self.buffers.clear()

    def _computing(self) -> AbstractContextManager[None]:
        """Keeps a reference that computes on the device off it while others time something there."""
        on_device = self.target.name == "cuda" and self.source.kind == "kernelbench"
        return self.lock(shared=True) if on_device else nullcontext()

    def lock(self, *, shared: bool = False) -> AbstractContextManager[None]:
        """Hold the device, see `device_lock`."""
        return device_lock(self.device.lock, shared=shared)

    # ----------------------------------------------------------------------------------------------------- kernels

    def build(self, kernel: Kernel) -> BuildReport:
        """Compile the release variant only. Raises KernelError for settings that are not allowed."""
        with self.lock(shared=True):
            return self.build_variant(kernel, "release").report

    def evaluate(self, kernel: Kernel, incumbent: Kernel | None = None, final: bool = False) -> Verdict:
        """Run the gauntlet; a kernel's failures are a `Rejected` verdict, the machinery's an `Unjudged` one."""
        try:
            return Gauntlet(self, kernel, incumbent, final=final).verdict()
        except InfrastructureError as error:
            return Unjudged(kernel=kernel.id, message=str(error))
        finally:
            self._forget()

    def quick(self, kernels: Sequence[Kernel], incumbent: Kernel | None = None) -> list[QuickResult]:
        """Light correctness and a short timing, in the order given, raced side by side with the incumbent."""
        try:
            return quick_results(self, kernels, incumbent)
        finally:
            self._forget()

    def _forget(self) -> None:
        self.device.dismiss()
        if self._is_open:
            self.content.forget()

    def prepare(self, kernels: Sequence[Kernel], begun: int = 0) -> None:
        """Say that a worker will be wanted for each, of which the first so many were prepared before; no use before the
        judge is open. The caller holds the device, shared."""
        if self._is_open:
            self.device.prepare(self.buffers, sum(kernel.language != "torch" for kernel in kernels), begun)

    def draw_ahead(self, wanted: Sequence[tuple[int, str]]) -> None:
        """See `ContentSource`; no use before the judge is open."""
        if self._is_open:
            self.content.draw_ahead(wanted)

    def look_early(self, kernel: Kernel) -> Look | None:
        """See `Device`; None before the judge is open."""
        return self.device.look_early(self, kernel) if self._is_open else None

    def build_variant(self, kernel: Kernel, variant: Variant) -> Build:
        """Build against this task's header, or return the build that is cached or under way."""
        begun = self.compilers.begun(kernel) if variant == "release" else None
        return self._compile(kernel, variant) if begun is None else begun.result()

    @functools.cached_property
    def calls(self) -> list[ModelCall]:
        """How a torch kernel is made and called, for each workload. Raises TaskError and KernelError."""
        return [self.reference.model_call(index) for index in range(len(self.names))]

    def _compile(self, kernel: Kernel, variant: Variant) -> Build:
        if kernel.language == "torch":
            return self.device.torch.build(kernel, self.calls, self.source.libraries)
        return self.target.compile_kernel(kernel, self.header, variant, self.source.libraries)

    def runner(self, build: Build, *, omp_threads: int | None = None) -> Runner:
        """A runner in a new worker of its own. Raises WorkerFailed when the library does not load."""
        return self.runner_of(self._worker(build, omp_threads))

    def runner_of(self, worker: Worker, patience: float = 1.0) -> Runner:
        """A runner in `worker`, which may take `patience` times the usual time."""
        return self._runner(Runner, worker, patience)

    def shared_worker(self) -> SharedWorker | None:
        """See `Device`. Close its worker."""
        return self.device.shared_worker(self.buffers)

    def tenant(self, shared: SharedWorker, number: int) -> Tenant:
        """A runner of one of the kernels that the worker has taken in."""
        return Tenant(shared, number, self.buffers, self.timeouts, self._means())

    def rival(self, kernel: Kernel) -> Rival:
        """The incumbent in a new worker of its own. Raises InfrastructureError when it can't run any more."""
        build = self.build_variant(kernel, "release")
        try:
            return self._runner(Rival, self._worker(build, None))
        except WorkerFailed as failure:
            raise InfrastructureError(f"the incumbent does not load: it {failure.message}") from failure

    def _runner(self, kind: type[AnyRunner], worker: Worker, patience: float = 1.0) -> AnyRunner:
        if isinstance(worker, TorchWorker):
            means = Means(self.device.torch.round_trip, self.device.flush, worker.allowance)
            return kind(worker, self.buffers, [seconds * patience for seconds in self.timeouts], means)
        timeouts = [seconds * patience for seconds in self.timeouts]
        return kind(worker, self.buffers, timeouts, self._means())

    def _means(self) -> Means:
        assert self._yardstick is not None
        return Means(self._yardstick.round_trip, self.device.flush, self.device.allowance)

    def _worker(self, build: Build, omp_threads: int | None) -> Worker:
        if build.library is None:
            raise InfrastructureError(f"the kernel {build.report.kernel} has no build to run")
        if build.language == "torch":
            return self.device.torch.worker(build, self.calls, self.buffers, omp_threads)
        return self.device.worker(build, self.buffers, omp_threads)

    def may_map(self, library: str) -> bool:
        """Whether a kernel's worker may have a file of this name mapped."""
        return self.target.may_map(library, self.source.libraries) or (
            self._yardstick is not None and library in self._yardstick.libraries
        )

    # ------------------------------------------------------------------------------------------------------ figures

    @property
    def timeouts(self) -> list[float]:
        """Seconds a kernel may take on each workload."""
        return [min(TIMEOUT_LEAST + TIMEOUT_FACTOR * base, TIMEOUT_MOST) for base in self.baseline_seconds]

    def baselines(self, workload: int) -> dict[str, float]:
        """Seconds of every baseline by name, as they were when the task was opened."""
        return {each.name: each.seconds for each in self._baselines[workload].timed}

    def limit_seconds(self, workload: int) -> float:
        """The shortest time the measured peaks allow."""
        baseline = self._baselines[workload]
        return limit_seconds(baseline.bytes, baseline.flops, self.arithmetic(workload), self.hardware)

    def floor_seconds(self, workload: int) -> float:
        """Below this a time is refused: the limit with margins, reads and writes at their own peaks."""
        baseline, machine = self._baselines[workload], self.hardware
        written = float(sum(tensor.nbytes for tensor in self.signatures[workload].outputs))
        read = max(baseline.bytes - written, 0.0)
        must_leave = max(min(written, baseline.bytes) - self.device.lasting_bytes, 0.0)
        seconds = BYTES_MARGIN * max(read / machine.bandwidth, must_leave / machine.bandwidth)
        arithmetic = self.arithmetic(workload)
        peak = machine.peak(arithmetic)
        measured = self.source.policy == "strict" or arithmetic in machine.peak_flops
        if baseline.flops is not None and peak is not None and measured:
            seconds = max(seconds, FLOPS_MARGIN * baseline.flops / peak)
        return seconds

    def measure_hardware_again(self) -> None:
        """Raise the peaks to what is seen now, here and in the cache; the caller holds the device."""
        self.hardware = self.device.measured_again(self.hardware)

    def shuffled_workloads(self) -> list[int]:
        return secrets.SystemRandom().sample(range(len(self.names)), len(self.names))

    def arithmetic(self, workload: int) -> str:
        """In what the workload's arithmetic may be done under the task's policy: what its peak bounds."""
        signature = self.signatures[workload]
        tensors = (*signature.input_tensors, *signature.outputs)
        return arithmetic_of((tensor.dtype for tensor in tensors), self.source.policy)
