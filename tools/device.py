"""The seam between the judge and a kind of device: it makes buffers, starts workers, empties caches and keeps time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.clock import Allowance
from tools.contract import Signature
from tools.hardware import Hardware
from tools.process import Completed
from tools.records import Kernel
from tools.sandbox import Sandbox
from tools.stages import Evidence
from tools.targets.base import Build, Target
from tools.worker import Worker

if TYPE_CHECKING:
    from tools.judge import Judge
    from tools.torch_bench import TorchBench


class Yardstick(Protocol):
    """A worker with a kernel of the judge's own."""

    libraries: frozenset[str]
    """Files that any worker has mapped."""

    def round_trip(self) -> float:
        """Seconds that a call takes in which no kernel has a hand."""
        ...

    def close(self) -> None: ...


class Look(AbstractContextManager["Look"], Protocol):
    """What `Device.memory_safe` looks for, under way. Leaving it ends what still runs."""

    def load(self, build: Build) -> None:
        """Give it the kernel, for which it may have waited."""
        ...

    def report(self, evidence: Evidence) -> None:
        """Wait for it and tell, as `memory_safe` does."""
        ...


class SharedWorker(Protocol):
    """A worker that takes several kernels in, of which one at a time is called."""

    def load(self, library: Path, number: int = 0) -> None:
        """Take one in under a number, and call it from now on. Raises WorkerFailed and InfrastructureError."""
        ...

    def use(self, number: int) -> None:
        """Call this one from now on. Raises WorkerFailed and InfrastructureError."""
        ...

    @property
    def worker(self) -> Worker:
        """It, as any other."""
        ...


class Device(Protocol):
    """One device of this machine. Not for several threads."""

    @property
    def target(self) -> Target: ...

    @property
    def torch(self) -> TorchBench:
        """What torch kernels are built and run with here."""
        ...

    @property
    def lock(self) -> str:
        """Its name for `device_lock`."""
        ...

    @property
    def sandbox(self) -> Sandbox:
        """What confines workers."""
        ...

    @property
    def allowance(self) -> Allowance:
        """What of a call's outer span counts as the round trip's."""
        ...

    @property
    def shares_cores(self) -> bool:
        """Whether kernels run on the cores that other programs use too, so that these make their times read long."""
        ...

    @property
    def lasting_bytes(self) -> float:
        """Bytes of outputs that may still be in a cache when a call is over."""
        ...

    def hardware(self) -> Hardware:
        """Its figures, from the cache folder where they are known."""
        ...

    def measured_again(self, known: Hardware) -> Hardware:
        """The better of `known` and what is seen now, also kept in the cache; the caller holds the device."""
        ...

    def facts(self) -> dict[str, str]:
        """What else is worth knowing of it."""
        ...

    def buffers(self, signature: Signature, signatures: Sequence[Signature]) -> WorkloadBuffers:
        """Inputs of one workload, shared by all workers. InfrastructureError when there is no room."""
        ...

    def worker(self, build: Build, buffers: Sequence[WorkloadBuffers], omp_threads: int | None) -> Worker:
        """A new worker that holds the kernel. Raises WorkerFailed and InfrastructureError."""
        ...

    def shared_worker(self, buffers: Sequence[WorkloadBuffers]) -> SharedWorker | None:
        """A worker for several variants of a kernel that are only compared; None where each may have its own, since
        they start fast. InfrastructureError."""
        ...

    def prepare(self, buffers: Sequence[WorkloadBuffers], count: int, begun: int = 0) -> None:
        """So many workers will be asked for soon: begin to start them, where that takes its time, but for the first
        ones that an earlier call has begun. What `worker` does not take is to be dismissed. InfrastructureError when
        there is no room."""
        ...

    def dismiss(self) -> None:
        """End the workers that were prepared and not asked for."""
        ...

    def sibling_differs(self) -> bool:
        """Whether a second worker can run the kernel in another way (with one thread, say)."""
        ...

    def flush(self, inputs: WorkloadBuffers, outputs: OutputBuffers) -> None:
        """Leave nothing of these arrays in a cache."""
        ...

    def inspect(self, worker: Worker) -> None:
        """Raises Failed for what a kernel has set up in its process that this device has no honest use for."""
        ...

    def memory_safe(self, judge: Judge, kernel: Kernel, build: Build, evidence: Evidence) -> None:
        """Run the kernel under the device's sanitizers. Raises Failed, WorkerFailed and InfrastructureError."""
        ...

    def look_early(self, judge: Judge, kernel: Kernel) -> Look | None:
        """Begin, before the kernel is built, to look for what `memory_safe` looks for, beside the checks of its
        results. None where that would disturb them."""
        ...

    def run_program(self, program: Path, seconds: float) -> Completed:
        """Run a program of the model's own, confined like a worker, and end it after `seconds`; the caller holds the
        device. InfrastructureError when the device is not free again afterwards."""
        ...

    def yardstick(self) -> Yardstick:
        """Raises InfrastructureError when the clocks don't read right."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...
