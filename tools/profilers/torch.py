"""Profiles one torch kernel: its time, where that stands under the roofs, and what ran on the device and how long.

Counters, machine code and source lines are for native kernels: no instrument here looks into an interpreter that forks
from a server. `missing` says so.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from tools.errors import KernelError
from tools.profilers.classify import Observed, classify
from tools.profilers.cpu import workload_facts
from tools.profiles import Metric, Profile, Roofline
from tools.records import Kernel
from tools.targets.base import Build
from tools.torch_bench import TRACE_SECONDS
from tools.worker import WorkerFailed

if TYPE_CHECKING:
    from tools.judge import Judge

CALLS = 12
MOST_KERNELS = 12
"""Kernels of the device that are told, the longest first."""
MISSING = (
    "hardware counters, registers and spills, machine code, source lines: a torch kernel is profiled by clocks and by"
    " PyTorch's own profiler only; a native kernel gets all of them",
)


def profile_kernel(judge: Judge, kernel: Kernel, workload: str | None = None) -> Profile:
    """Profile `kernel` on `workload` (a name; the heaviest when None).

    KernelError when there is no such workload, or the kernel does not build or does not run.
    """
    facts, index = workload_facts(judge.facts.workloads, workload)
    build = judge.build_variant(kernel, "release")
    if build.library is None:
        raise KernelError(f"the kernel does not build: {build.message}", "Compile it first.")
    try:
        seconds, seen = _timed(judge, build, index), _traced(judge, build, index)
    except WorkerFailed as failure:
        raise KernelError(f"the kernel can't be profiled: it {failure.message}", "Run it first.") from failure
    peak = judge.hardware.peak(judge.arithmetic(index))
    roofline = Roofline(
        bytes=facts.bytes,
        seconds=seconds,
        peak_bandwidth=judge.hardware.bandwidth,
        flops=facts.flops if peak is not None else None,
        peak_flops=peak if facts.flops is not None else None,
    )
    bottleneck, evidence = classify(Observed(roofline=roofline, cores=judge.hardware.cores))
    return Profile(
        kernel=kernel.id,
        workload=facts.workload,
        bottleneck=bottleneck,
        evidence=(*evidence, *on_device(seen, seconds)),
        metrics=(
            Metric(name="seconds", value=seconds, unit="s/call, cold caches", source="clock"),
            Metric(name="share_of_limit", value=facts.limit_seconds / seconds, unit="fraction", source="clock"),
        ),
        missing=MISSING,
        roofline=roofline,
    )


def on_device(seen: dict[str, Any], seconds: float) -> tuple[str, ...]:
    """What ran on the device in one call, the longest first, and how often the framework was asked for something."""
    rows = [(str(name), row) for name, row in (seen.get("kernels") or {}).items() if isinstance(row, list)]
    longest = sorted(rows, key=lambda row: -row[1][1])[:MOST_KERNELS]
    told = [f"{name}: {row[1] / row[0]:.2f} us each, {row[0]} in the calls that were watched" for name, row in longest]
    operators = seen.get("operators") or {}
    if operators:
        told.append(f"operators of the framework in the calls that were watched: {', '.join(map(str, operators))}")
    if rows:
        busy = sum(row[1] for _, row in rows) / 1e6
        told.append(
            f"the device was at work {busy:.3g} s in the calls that were watched; one call takes {seconds:.3g} s"
        )
    return tuple(told)


def _timed(judge: Judge, build: Build, index: int) -> float:
    """Median seconds of a few calls with cold caches."""
    judge.progress("time")
    with judge.lock(), judge.runner(build) as runner:
        content = judge.content.fresh(index)
        runner.call(content)
        runner.drop_readings()
        for _ in range(CALLS):
            runner.call(content)
        return statistics.median(runner.seconds(index))


def _traced(judge: Judge, build: Build, index: int) -> dict[str, Any]:
    judge.progress("counters")
    for workload in range(len(judge.names)):
        judge.content.fresh(workload)
    with judge.lock(shared=True), judge.device.torch.tracing(judge, build) as worker:
        return worker.trace(TRACE_SECONDS)[index]
