"""The tool `profile`: what the machine really does with a kernel."""

from __future__ import annotations

from tools.executor import Executor
from tools.records import Kernel, Profile
from tools.task import TaskSource


async def profile(executor: Executor, task: TaskSource, kernel: Kernel, workload: str | None = None) -> Profile:
    """Profile a kernel that builds and runs: what bounds it, with the evidence.

    `workload` is a name out of the task's workloads; the heaviest when absent. The answer has:
    `bottleneck`: "memory" (bytes), "compute" (instructions or arithmetic), "latency" (waiting on neither: dependency
    chains, cache misses, idle cores) or "overhead" (entering, and opening parallel regions);
    `evidence`: sentences with the figures behind it, the decisive one first, and how they were obtained;
    `metrics`: figures of one call, each with unit and source (perf = counted or sampled by the hardware or kernel,
    valgrind = simulated on one thread in a build without AVX-512, clock = timed);
    `missing`: figures that could not be measured, and why; they are in no other field;
    `hot_lines`: where the time goes, by source line; `vectorization`: what the compiler made of each loop, and why not;
    `roofline`: bytes that must move and operations, with the measured peaks.
    Takes some seconds. It says nothing about correctness. Raises KernelError when the kernel does not build or run.
    """
    return await executor.profile(task, kernel, workload)
