"""A profile of a CUDA kernel without hardware counters: cold timing, measured roofs, and what the assembler reports.

Not covered: hardware counters, which `tools.profilers.ncu` reads.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from tools.errors import KernelError
from tools.profilers.cpu import workload_facts
from tools.records import DeviceCode, Kernel, Metric, Profile, Roofline
from tools.targets.base import Build
from tools.worker import WorkerFailed

if TYPE_CHECKING:
    from tools.judge import Judge

CALLS: Final = 9
EXPLAINS: Final = 0.5
"""A roof reached by this share is the bottleneck."""


def profile_kernel(judge: Judge, kernel: Kernel, workload: str | None = None, metrics: tuple[str, ...] = ()) -> Profile:
    """Profile `kernel` on `workload` (a name; the heaviest when None). KernelError when there is no such workload, or
    the kernel does not build or does not run."""
    facts, index = workload_facts(judge.facts.workloads, workload)
    build = judge.build_variant(kernel, "release")
    if build.library is None:
        raise KernelError(f"the kernel does not build: {build.message}", "Compile it first.")
    seconds = _time(judge, build, index)
    peak = judge.hardware.peak(judge.arithmetic(index))
    roofline = Roofline(
        bytes=facts.bytes,
        seconds=seconds,
        peak_bandwidth=judge.hardware.bandwidth,
        flops=facts.flops if peak is not None else None,
        peak_flops=peak if facts.flops is not None else None,
    )
    memory = facts.bytes / judge.hardware.bandwidth / seconds
    compute = facts.flops / peak / seconds if facts.flops is not None and peak is not None else 0.0
    evidence = [f"{memory:.0%} of the measured bandwidth if every byte moves once"]
    if compute:
        evidence.append(f"{compute:.0%} of the measured peak of {judge.arithmetic(index)} multiply-adds")
    return Profile(
        kernel=kernel.id,
        workload=facts.workload,
        bottleneck="latency" if max(memory, compute) < EXPLAINS else "memory" if memory >= compute else "compute",
        evidence=(*evidence, *_spent(build.report.device)),
        metrics=(
            Metric(name="seconds", value=seconds, unit="s/call, cold caches", source="clock"),
            Metric(name="share_of_limit", value=facts.limit_seconds / seconds, unit="fraction", source="clock"),
        ),
        missing=("hardware counters: not read here",),
        roofline=roofline,
    )


def _time(judge: Judge, build: Build, index: int) -> float:
    """Median seconds of a few calls with cold caches."""
    try:
        with judge.lock(), judge.runner(build) as runner:
            content = judge.content.fresh(index)
            runner.call(content)
            runner.drop_readings()
            for _ in range(CALLS):
                runner.call(content)
            return statistics.median(runner.seconds(index))
    except WorkerFailed as failure:
        raise KernelError(f"the kernel can't be profiled: it {failure.message}", "Run it first.") from failure


def _spent(device: DeviceCode | None) -> tuple[str, ...]:
    """A sentence for each kernel about registers, spills, shared memory and the best occupancy."""
    told = []
    for function in device.functions if device is not None else ():
        if function.kind == "kernel":
            best = max((each.share for each in function.occupancy), default=None)
            full = f", at most {best:.0%} of the warps at once" if best is not None else ""
            told.append(
                f"{function.name.split('(')[0]}: {function.registers} registers, "
                f"{function.spill_store_bytes + function.spill_load_bytes} bytes spilled, "
                f"{function.static_shared_bytes} bytes of static shared memory{full}"
            )
    return tuple(told)
