"""The `compile` tool of the agents."""

from __future__ import annotations

from tools.executor import Executor
from tools.records import BuildReport, Kernel
from tools.task import TaskSource


async def compile(executor: Executor, task: TaskSource, kernel: Kernel) -> BuildReport:
    """Build the kernel and return the compiler's diagnostics by line. Nothing is run and nothing is timed.

    Use it while the code does not build yet, or to read warnings. `built` is false when there is an error;
    `diagnostics` says where. A kernel that was built before returns at once (`cached`). For a GPU, `device` tells of
    each kernel its registers, spilled bytes, stack, static shared memory, and how full blocks of each size can make a
    multiprocessor.
    """
    return await executor.build(task, kernel)
