"""An executor that measures nothing: only for what the run around it costs (overhead, state size, crash and resume).

Times follow from the kernel's content, so that the same kernel always gets the same one.
"""

# ruff: noqa: ARG002 (a protocol names arguments that a stub does not need)

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tools.facts import TaskFacts, WorkloadFacts
from tools.machine_code import ListingRequest
from tools.profiles import Metric, Profile, Roofline
from tools.program import Experiment, Program
from tools.records import (
    Accepted,
    BuildReport,
    Comparison,
    Interval,
    Kernel,
    QuickResult,
    Rejected,
    StageReport,
    TargetName,
    Verdict,
    WorkloadTiming,
)
from tools.task import TaskSource

KERNEL = """#include "task.h"
// tune: BLOCK = 8,16,32,64,128,256
// tune: UNROLL = 1,2,4,8
#ifndef BLOCK
#define BLOCK 8
#endif
extern "C" void solve(const task::Args& args, void*) { args.y[0] = args.x[0] * BLOCK; }
"""

TASK = TaskSource(
    name="stub",
    kind="numpy",
    entry="reference.py",
    files={"reference.py": "def inputs(rng): ...\ndef reference(x): ...\n"},
    start={"cpp": Kernel(language="cpp", files={"kernel.cpp": KERNEL})},
)


class StubExecutor:
    """`seconds_of` decides how fast a kernel is; None rejects it."""

    def __init__(self, seconds_of: Callable[[Kernel], float | None]) -> None:
        self.seconds_of = seconds_of
        self.first_seconds_of = seconds_of
        """Asked for the candidate of an evaluation; `seconds_of` for the incumbent and for everything else."""
        self.judged: list[str] = []
        self.profiled: list[str] = []
        self.cores_used_by_others: float | None = None
        """Of every verdict on a race in a last measurement."""
        self.hang = False
        """Judge for ever, until cancelled."""

    async def open(self, task: TaskSource, target: TargetName = "cpu") -> TaskFacts:
        workload = WorkloadFacts(
            workload="default",
            weight=1.0,
            inputs=("x: float32[1024]",),
            outputs=("y: float32[1024]",),
            bytes=8192.0,
            flops=None,
            baseline_seconds=1.0,
            baseline_interval=Interval(low=0.99, high=1.01),
            limit_seconds=0.1,
        )
        return TaskFacts(
            task=task.id,
            target="cpu",
            header="// task.h\n",
            workloads=(workload,),
            hardware={"cpu": "stub"},
            sandbox="none",
        )

    async def build(self, task: TaskSource, kernel: Kernel, listing: ListingRequest | None = None) -> BuildReport:
        return BuildReport(kernel=kernel.id, built=True, seconds=0.0, command=("g++",))

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        self.judged.append(kernel.id)
        if self.hang:
            await asyncio.Event().wait()
        seconds = self.first_seconds_of(kernel)
        if seconds is None:
            stage = StageReport(stage="correct", passed=False, seconds=0.0)
            return Rejected(
                kernel=kernel.id, stage="correct", reason="wrong_result", message="y is wrong", stages=(stage,)
            )
        timing = WorkloadTiming(
            workload="default",
            weight=1.0,
            seconds=seconds,
            interval=Interval(low=seconds, high=seconds),
            samples=9,
            baseline_seconds=1.0,
            limit_seconds=0.1,
        )
        stage = StageReport(stage="audit", passed=True, seconds=0.0)
        race = None if incumbent is None else self._race(seconds, incumbent)
        return Accepted(
            kernel=kernel.id,
            stages=(stage,),
            timings=(timing,),
            worst_error=0.1,
            comparison=race,
            cores_used_by_others=self.cores_used_by_others if final else None,
        )

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        results = []
        for kernel in kernels:
            seconds = self.seconds_of(kernel)
            if seconds is None:
                results.append(QuickResult(kernel=kernel.id, status="rejected", reason="wrong_result"))
            else:
                results.append(QuickResult(kernel=kernel.id, status="timed", seconds=seconds))
        return results

    async def profile(
        self, task: TaskSource, kernel: Kernel, workload: str | None = None, metrics: Sequence[str] = ()
    ) -> Profile:
        self.profiled.append(kernel.id)
        return Profile(
            kernel=kernel.id,
            workload=workload or "default",
            bottleneck="memory",
            evidence=("it moves 90 % of what the memory can",),
            metrics=(Metric(name="seconds", value=0.5, unit="s", source="clock"),),
            roofline=Roofline(bytes=8192.0, seconds=0.5, peak_bandwidth=1e10),
        )

    async def experiment(self, task: TaskSource, program: Program) -> Experiment:
        return Experiment(program=program.id, status="ended", exit_code=0, seconds=0.1)

    async def close(self) -> None:
        return None

    def _race(self, seconds: float, incumbent: Kernel) -> Comparison:
        ratio = (self.seconds_of(incumbent) or 1.0) / seconds
        decision = "faster" if ratio > 1.01 else "slower" if ratio < 0.99 else "same"
        return Comparison(decision=decision, ratio=ratio, interval=Interval(low=ratio, high=ratio))
