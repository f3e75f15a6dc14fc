"""A profile of a CUDA kernel: cold timing and measured roofs, with the hardware's counters where they can be read.

Where they can't, it is made of the roofs, of what the assembler reports and of the machine code, and says so. Not
covered: kernels that only run beside another process or on several devices.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tools.counters import Uncounted
from tools.device_code import DeviceCode
from tools.errors import InfrastructureError, KernelError
from tools.facts import WorkloadFacts
from tools.profilers import sass
from tools.profilers.cpu import workload_facts
from tools.profilers.kernel_names import bare_name
from tools.profilers.ncu_report import Findings
from tools.profiles import Metric, Profile, Roofline, StaticProfile
from tools.records import Kernel
from tools.targets.base import Build
from tools.worker import WorkerFailed

if TYPE_CHECKING:
    from tools.deviceless import DevicelessJudge
    from tools.judge import Judge

CALLS: Final = 9
EXPLAINS: Final = 0.5
"""A roof reached by this share is the bottleneck, where no counter tells."""
_METRIC: Final = re.compile(r"\w+(\.\w+)*")


@dataclass(frozen=True)
class Standing:
    """What is known of a kernel on a workload without counters."""

    kernel: str
    facts: WorkloadFacts
    roofline: Roofline
    arithmetic: str
    device: DeviceCode | None
    machine_code: str | None
    """SASS of its kernels; None where this machine can't list it."""


def profile_kernel(judge: Judge, kernel: Kernel, workload: str | None = None, metrics: Sequence[str] = ()) -> Profile:
    """Profile `kernel` on `workload` (a name; the heaviest when None), with further counters by ncu's names.

    KernelError when there is no such workload, a name can't be a metric's, or the kernel does not build or run.
    """
    strange = [name for name in metrics if not _METRIC.fullmatch(name)]
    if strange:
        raise KernelError(f"`{strange[0]}` can't be the name of a metric", "Write it as ncu does: dram__bytes.sum")
    facts, index = workload_facts(judge.facts.workloads, workload)
    with judge.lock(shared=True):
        judge.prepare([kernel])
        build = judge.build_variant(kernel, "release")
    if build.library is None:
        raise KernelError(f"the kernel does not build: {build.message}", "Compile it first.")
    peak = judge.hardware.peak(judge.arithmetic(index))
    judge.progress("time")
    roofline = Roofline(
        bytes=facts.bytes,
        seconds=_time(judge, build, index),
        peak_bandwidth=judge.hardware.bandwidth,
        flops=facts.flops if peak is not None else None,
        peak_flops=peak if facts.flops is not None else None,
    )
    judge.progress("counters")
    with ThreadPoolExecutor(1) as beside:
        code = beside.submit(_machine_code, judge, build)
        counted = _counters(judge, kernel, build, index, metrics)
    standing = Standing(kernel.id, facts, roofline, judge.arithmetic(index), build.report.device, code.result())
    return assemble(standing, counted, metrics)


def static_profile(judge: Judge | DevicelessJudge, kernel: Kernel, why: str) -> StaticProfile:
    """What the build alone tells; it needs no device. `why` it is not run. KernelError when it does not build."""
    if kernel.language != "cuda":
        raise KernelError(f"a {kernel.language} kernel has no static profile", "Profile it where it runs.")
    build = judge.build_variant(kernel, "release")
    if build.library is None:
        raise KernelError(f"the kernel does not build: {build.message}", "Compile it first.")
    device = build.report.device
    assert device is not None
    told = _told(device, _machine_code(judge, build))
    missing = (f"times and hardware counters: {why}", *told.missing)
    return StaticProfile(kernel=kernel.id, device=device, evidence=told.evidence, metrics=told.metrics, missing=missing)


class _Told(NamedTuple):
    """What the assembler reports and the machine code say."""

    evidence: tuple[str, ...]
    metrics: tuple[Metric, ...]
    missing: tuple[str, ...]


def _told(device: DeviceCode | None, machine_code: str | None) -> _Told:
    if machine_code is None:
        return _Told(_spent(device), (), ("instructions of the machine code: this machine has no cuobjdump",))
    code = sass.count(machine_code)
    return _Told((*_spent(device), sass.sentence(code)), sass.metrics(code), ())


def assemble(standing: Standing, counted: Findings | Uncounted, asked: Sequence[str] = ()) -> Profile:
    """The profile: by the counters, or by everything else when there are none. Pure."""
    roofline, facts = standing.roofline, standing.facts
    clock = (
        Metric(name="seconds", value=roofline.seconds, unit="s/call, cold caches", source="clock"),
        Metric(name="share_of_limit", value=facts.limit_seconds / roofline.seconds, unit="fraction", source="clock"),
    )
    bottleneck, roofs = _by_roofs(standing)
    if isinstance(counted, Findings):
        return Profile(
            kernel=standing.kernel,
            workload=facts.workload,
            bottleneck=counted.bottleneck,
            evidence=(*counted.evidence, *roofs),
            metrics=(*clock, *counted.metrics),
            missing=counted.missing,
            hot_lines=counted.hot_lines,
            roofline=roofline,
            counters=counted.counters,
        )
    told = _told(standing.device, standing.machine_code)
    asked_for = (f"{name}: a hardware counter" for name in asked)
    return Profile(
        kernel=standing.kernel,
        workload=facts.workload,
        bottleneck=bottleneck,
        evidence=(
            "without counters, by time against the measured roofs and by what the assembler made of it",
            *roofs,
            *told.evidence,
        ),
        metrics=(*clock, *told.metrics),
        missing=(f"hardware counters: {counted.message}", *asked_for, *told.missing),
        roofline=roofline,
        counters=counted,
    )


def _counters(judge: Judge, kernel: Kernel, build: Build, index: int, metrics: Sequence[str]) -> Findings | Uncounted:
    """Run the kernel alone under the profiler, with the device held."""
    from tools.cuda_device import CudaDevice
    from tools.cuda_sanitizer import encode_plan
    from tools.profilers import ncu_live

    assert build.library is not None and isinstance(judge.device, CudaDevice)
    content = judge.content.fresh(index)
    plan = encode_plan(judge.signatures[index], judge.buffers[index].slots, content.inputs)
    subject = ncu_live.Subject(build.library, kernel.files, build.report.device, plan)
    with judge.lock():
        return ncu_live.count(judge.device.host, subject, metrics)


def _machine_code(judge: Judge | DevicelessJudge, build: Build) -> str | None:
    try:
        return judge.target.listing(build, None, "sass")
    except (KernelError, InfrastructureError):
        return None


def _by_roofs(standing: Standing) -> tuple[Literal["memory", "compute", "latency"], tuple[str, ...]]:
    """The class that time against the measured roofs suggests, and the sentences that say how near they are."""
    roof = standing.roofline
    memory = roof.bytes / roof.peak_bandwidth / roof.seconds
    compute = roof.flops / roof.peak_flops / roof.seconds if roof.flops and roof.peak_flops else 0.0
    told = [f"{memory:.0%} of the measured bandwidth if every byte moves once"]
    if compute:
        told.append(f"{compute:.0%} of the measured peak of {standing.arithmetic} multiply-adds")
    nearest: Literal["memory", "compute"] = "memory" if memory >= compute else "compute"
    return "latency" if max(memory, compute) < EXPLAINS else nearest, tuple(told)


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
                f"{bare_name(function.name)}: {function.registers} registers, "
                f"{function.spill_store_bytes + function.spill_load_bytes} bytes spilled, "
                f"{function.static_shared_bytes} bytes of static shared memory{full}"
            )
    return tuple(told)
