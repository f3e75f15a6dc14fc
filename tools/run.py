"""The `run` tool of the agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tools.errors import KernelError
from tools.executor import Executor
from tools.records import Kernel, QuickResult, Verdict
from tools.task import TaskSource


async def run(
    executor: Executor,
    task: TaskSource,
    kernels: Sequence[Kernel],
    mode: Literal["full", "quick"],
    incumbent: Kernel | None = None,
) -> Verdict | list[QuickResult]:
    """Run kernels on the device and measure them.

    mode "full" judges ONE kernel that you want to keep: it is checked on secret inputs of several kinds and on every
    workload, run repeatedly, run under the sanitizers, timed with cold caches against the best kernel so far, and
    measured again in a new process. Only a full run can make a kernel the best one. A rejection names the stage, the
    reason, and the first wrong element with its expected and actual value.

    mode "quick" takes SEVERAL variants (other tunables, flags or files) and times them side by side with the best
    kernel so far after one check each. `ratio` above 1 means faster than the best. Use it to choose what deserves a
    full run; its times are short and prove nothing.
    """
    if mode == "quick":
        return await executor.quick(task, kernels, incumbent)
    if len(kernels) != 1:
        raise KernelError("a full run judges one kernel at a time", "Send one kernel, or use mode quick.")
    return await executor.evaluate(task, kernels[0], incumbent)
