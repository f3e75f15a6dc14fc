"""A task on a machine without the device of its target: kernels are screened and built, and nothing is judged."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from tools.audit import audit
from tools.contract import task_header
from tools.errors import InfrastructureError
from tools.no_device import ADVICE, NO_DEVICE
from tools.records import BuildReport, Kernel, Unjudged, Verdict
from tools.reference import load_reference
from tools.stages import Rejection, Stages
from tools.targets.base import Build, Target, Variant
from tools.task import TaskSource
from tools.torch_bench import TorchBench
from tools.torch_process import Home


class DevicelessJudge:
    """Stands in for `tools.judge.Judge` where there is no device."""

    def __init__(
        self, source: TaskSource, target: Target, progress: Callable[[str], None], why: str = NO_DEVICE
    ) -> None:
        """Load and audit the task. Raises TaskError."""
        self._why = why
        self.source = source
        self.target = target
        self.progress = progress
        progress("reference")
        reference = load_reference(source)
        progress("audit")
        audit(reference, secrets.randbits(32))
        self._reference = reference
        self._torch = TorchBench(Home(target.name), None, None)
        self.header = task_header(source.name, [reference.signature(i) for i in range(len(reference.workloads))])

    @property
    def refusal(self) -> InfrastructureError:
        """The answer to what needs a device."""
        return InfrastructureError(self._why, ADVICE[self._why])

    def close(self) -> None:
        """There is nothing to give back."""

    def build(self, kernel: Kernel) -> BuildReport:
        """Compile only. Raises KernelError for settings that are not allowed."""
        return self.build_variant(kernel, "release").report

    def evaluate(self, kernel: Kernel) -> Verdict:
        """A rejection by the stages that need no device, else an `Unjudged` with their reports."""
        stages = Stages(self, kernel)
        try:
            stages.before_device()
        except Rejection as rejection:
            return rejection.verdict
        except InfrastructureError as error:
            return Unjudged(kernel=kernel.id, message=str(error), stages=stages.reports)
        return Unjudged(kernel=kernel.id, message=self._why, stages=stages.reports)

    def build_variant(self, kernel: Kernel, variant: Variant) -> Build:
        """Build against this task's header, or return the cached build."""
        if kernel.language == "torch":
            calls = [self._reference.model_call(index) for index in range(len(self._reference.workloads))]
            return self._torch.build(kernel, calls, self.source.libraries)
        return self.target.compile_kernel(kernel, self.header, variant, self.source.libraries)
