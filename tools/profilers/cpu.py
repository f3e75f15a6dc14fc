"""Profiles one kernel on the CPU: timed by the judge's runner, watched by the instruments, read by the compiler.

Not covered: the judge's verdict (a profiled kernel may be wrong) and inputs other than the given distribution.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.contract import slots
from tools.device_lock import device_lock
from tools.errors import InfrastructureError, KernelError
from tools.facts import WorkloadFacts
from tools.profilers.classify import Observed, classify
from tools.profilers.gather import Findings, Subject, gather
from tools.profilers.replay import record
from tools.profilers.vectorization import parse_report
from tools.profiles import Metric, Profile, Roofline
from tools.records import Kernel
from tools.targets.base import Build, Variant
from tools.worker import WorkerFailed

if TYPE_CHECKING:
    from tools.judge import Judge

TIMING_SECONDS: Final = 0.6
SAMPLES: Final = (3, 25)
"""Fewest and most timed calls."""


@dataclass(frozen=True)
class Timed:
    """Median seconds of cold calls, and the share of the cores' time that the kernel's threads used meanwhile."""

    seconds: float
    busy: float


def profile_kernel(judge: Judge, kernel: Kernel, workload: str | None = None) -> Profile:
    """Profile `kernel` on `workload` (a name; the heaviest when None).

    KernelError when there is no such workload, or the kernel does not build or does not run; InfrastructureError when
    it can't even be timed. Every other instrument that fails only adds to `missing`.
    """
    facts, index = workload_facts(judge.facts.workloads, workload)
    build = _built(judge, kernel, "profile")
    timed = _time(judge, build, index)
    roofline = _roofline(judge, index, facts, timed.seconds)
    findings = _findings(judge, kernel, build, index, timed.seconds)
    observed = Observed(
        roofline=roofline,
        cores=judge.hardware.cores,
        metrics=tuple(findings.metrics),
        regions=findings.regions,
        fork_seconds=findings.fork_seconds,
        busy=timed.busy,
        clock_hertz=_clock_hertz(),
    )
    bottleneck, evidence = classify(observed)
    own = (
        Metric(name="seconds", value=timed.seconds, unit="s/call, cold caches", source="clock"),
        Metric(name="busy_cores", value=timed.busy * observed.cores, unit="cores", source="clock"),
        Metric(name="share_of_limit", value=facts.limit_seconds / timed.seconds, unit="fraction", source="clock"),
    )
    return Profile(
        kernel=kernel.id,
        workload=facts.workload,
        bottleneck=bottleneck,
        evidence=(*evidence, *findings.evidence),
        metrics=(*own, *findings.metrics),
        missing=findings.missing_lines,
        hot_lines=findings.hot_lines,
        vectorization=parse_report(build.report.output, kernel.files),
        roofline=roofline,
    )


def workload_facts(all_facts: Sequence[WorkloadFacts], name: str | None) -> tuple[WorkloadFacts, int]:
    """The workload of this name, or the heaviest, and its number. KernelError for an unknown name."""
    if name is None:
        index = max(range(len(all_facts)), key=lambda i: all_facts[i].baseline_seconds)
        return all_facts[index], index
    for index, facts in enumerate(all_facts):
        if facts.workload == name:
            return facts, index
    names = ", ".join(facts.workload for facts in all_facts)
    raise KernelError(f"the task has no workload named {name}", f"It has {names}.")


def _built(judge: Judge, kernel: Kernel, variant: Variant) -> Build:
    build = judge.build_variant(kernel, variant)
    if build.library is None:
        errors = [d for d in build.report.diagnostics if d.severity == "error"]
        where = f"{errors[0].file}:{errors[0].line}: {errors[0].message}" if errors else build.message
        raise KernelError(f"the kernel does not build: {where}", "Compile it first.")
    return build


def _time(judge: Judge, build: Build, index: int) -> Timed:
    """Call the kernel on one content with cold caches for a moment."""
    try:
        with device_lock(), judge.runner(build) as runner:
            content = judge.content.fresh(index)
            runner.call(content)
            runner.drop_readings()
            worked, began = runner.worker.cpu_seconds(), time.perf_counter()
            count = 0
            while count < SAMPLES[0] or (count < SAMPLES[1] and time.perf_counter() - began < TIMING_SECONDS):
                runner.call(content)
                count += 1
            worked = runner.worker.cpu_seconds() - worked
    except WorkerFailed as failure:
        raise KernelError(f"the kernel can't be profiled: it {failure.message}", "Run it first.") from failure
    seconds = runner.seconds(index)
    return Timed(statistics.median(seconds), min(worked / (sum(seconds) * judge.hardware.cores), 1.0))


def _roofline(judge: Judge, index: int, facts: WorkloadFacts, seconds: float) -> Roofline:
    return Roofline(
        bytes=facts.bytes,
        seconds=seconds,
        peak_bandwidth=judge.hardware.bandwidth,
        flops=facts.flops,
        peak_flops=judge.hardware.peak(judge.arithmetic(index)) if facts.flops is not None else None,
    )


def _findings(judge: Judge, kernel: Kernel, build: Build, index: int, seconds: float) -> Findings:
    """What the instruments find on the recorded workload."""
    assert build.library is not None
    signatures = judge.signatures
    inputs = judge.reference.draw(index, 0, "given")
    with tempfile.TemporaryDirectory(prefix="warpsmith-profile-") as name:
        folder = Path(name).resolve()
        try:
            replay = record(
                signatures[index], slots(signatures[index], signatures), inputs, folder, judge.device.sandbox
            )
        except InfrastructureError as error:
            return Findings(missing={"all counters and hot lines": error.message})
        return gather(Subject(kernel, build.library, lambda: _built(judge, kernel, "simulate"), replay, seconds))


def _clock_hertz() -> float | None:
    """The cores' clock rate: what the kernel says they can reach, else what they run at now."""
    try:
        limit = Path(f"/sys/devices/system/cpu/cpu{min(os.sched_getaffinity(0))}/cpufreq/cpuinfo_max_freq")
        if limit.is_file():
            return float(limit.read_text()) * 1e3
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        rates = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
        return max(rates) * 1e6 if rates else None
    except (OSError, ValueError):
        return None
