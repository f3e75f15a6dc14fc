"""A run folder made by hand through the run store's own API: 24 attempts of a softmax, no judge needed."""

from __future__ import annotations

from pathlib import Path

from memory.ledger import Outcome
from memory.runs import Attempt, RunFolder
from tools.facts import TaskFacts, WorkloadFacts
from tools.profiles import Profile, Roofline
from tools.records import Accepted, Comparison, Interval, Kernel, Mismatch, Rejected, StageReport, WorkloadTiming

BASELINE = {"square": 8.1e-3, "odd": 5.2e-3}
LIMIT = {"square": 0.9e-3, "odd": 0.5e-3}
SOURCE = '#include "task.h"\n// tune: BLOCK = 16,32,64\n#ifndef BLOCK\n#define BLOCK 16\n#endif\nvoid solve() {}\n'
STAGES = ("screen", "build", "correct", "deterministic", "memory-safe", "time", "audit")


def make_run(root: Path, *, attempts: int = 24, ended: bool = True, note: str = "", accept: bool = True) -> RunFolder:
    """A run with a kept attempt now and then; `note` goes into every attempt; `accept` false rejects them all."""
    run = RunFolder.create(root, "softmax", _config())
    run.write_facts(_facts().model_dump(mode="json"))
    best = None
    for index in range(attempts):
        rejected = not accept or index % 7 == 3
        seconds = 4.4e-3 * 0.96**index if index % 3 == 0 else 4.6e-3 * 0.97**index
        kept = not rejected and index % 3 == 0
        _add(run, index, best, None if rejected else seconds, kept=kept, note=note)
        best = f"a{index}" if kept else best
    if best is not None:
        run.add_profile(best, _profile(best).model_dump(mode="json"))
    if ended:
        final = (
            _accepted(Kernel(language="cpp", files={"kernel.cpp": SOURCE}), 4.4e-3 * 0.96 ** int(best[1:]), 4.4e-3)
            if best
            else None
        )
        run.write_outcome(_outcome(run, best, final))
    return RunFolder(run.path)


def _add(run: RunFolder, index: int, parent: str | None, seconds: float | None, *, kept: bool, note: str) -> None:
    defines = {"BLOCK": str(16 << index % 3)} if index else {}
    files = {"kernel.cpp": SOURCE.replace("solve() {}", f"solve() {{ /* {index} & <b> */ }}")}
    kernel = Kernel(language="cpp", files=files, defines=defines, flags=("-O3",) if index % 2 else ())
    verdict = _rejected(kernel) if seconds is None else _accepted(kernel, seconds)
    outcome: Outcome = "kept" if kept else "rejected" if seconds is None else "slower"
    accepted = isinstance(verdict, Accepted)
    run.add_attempt(
        Attempt(
            id=f"a{index}",
            parent=parent,
            iteration=index,
            kernel_id=kernel.id,
            kernel=kernel.model_dump(mode="json"),
            hypothesis={"idea": "Wider blocks keep more in registers", "metric": "seconds"} if index else None,
            change=" ".join([*(f"{k}={v}" for k, v in defines.items()), *kernel.flags]),
            outcome=outcome,
            note=note or ("wrong result in row 3" if seconds is None else ""),
            seconds=verdict.seconds if isinstance(verdict, Accepted) else None,
            share_of_limit=verdict.share_of_limit if isinstance(verdict, Accepted) else None,
            speedup=verdict.speedup if isinstance(verdict, Accepted) else None,
            judged_at=1.8e9 + index,
            device_seconds=1.5 if accepted else 0.7,
        ),
        kernel.files,
        verdict.model_dump(mode="json"),
    )


def _accepted(kernel: Kernel, seconds: float, incumbent: float | None = None) -> Accepted:
    timings = tuple(
        WorkloadTiming(
            workload=name,
            weight=1.0,
            seconds=seconds * factor,
            interval=Interval(low=seconds * factor * 0.98, high=seconds * factor * 1.02),
            samples=41,
            baseline_seconds=BASELINE[name],
            limit_seconds=LIMIT[name],
            incumbent_seconds=incumbent * factor if incumbent else None,
        )
        for name, factor in (("square", 1.0), ("odd", 0.6))
    )
    raced = None
    if incumbent:
        ratio = incumbent / seconds
        raced = Comparison(decision="faster", ratio=ratio, interval=Interval(low=ratio * 0.97, high=ratio * 1.03))
    stages = tuple(
        StageReport(stage=stage, passed=True, seconds=0.2, details={"checks": 12, "seeds": [1, 2]}) for stage in STAGES
    )
    return Accepted(kernel=kernel.id, stages=stages, timings=timings, worst_error=0.21, comparison=raced)


def _rejected(kernel: Kernel) -> Rejected:
    return Rejected(
        kernel=kernel.id,
        stage="correct",
        reason="wrong_result",
        message="The output is wrong in 12 of 4096 elements",
        stages=(StageReport(stage="correct", passed=False, seconds=0.4),),
        mismatch=Mismatch(
            workload="odd",
            distribution="shifted",
            output="out",
            index=(3, 7),
            expected="0.25",
            actual="0.5",
            wrong=12,
            total=4096,
        ),
    )


def _profile(attempt: str) -> Profile:
    return Profile(
        kernel=attempt,
        workload="square",
        bottleneck="memory",
        evidence=("moves 14.2 GB/s, 71 % of the measured bandwidth",),
        metrics=(),
        missing=("cache misses: no hardware counters here",),
        roofline=Roofline(bytes=1.6e7, seconds=1e-3, peak_bandwidth=2e10, flops=5e6, peak_flops=1.1e11),
    )


def _facts() -> TaskFacts:
    return TaskFacts(
        task="softmax",
        target="cpu",
        header="// task.h",
        workloads=tuple(
            WorkloadFacts(
                workload=name,
                weight=1.0,
                inputs=("x: float32[1024, 2048]",),
                outputs=("out: float32[1024, 2048]",),
                bytes=1.6e7,
                flops=1.0e7,
                baseline_seconds=BASELINE[name],
                baseline_interval=Interval(low=BASELINE[name] * 0.97, high=BASELINE[name] * 1.03),
                limit_seconds=LIMIT[name],
            )
            for name in ("square", "odd")
        ),
        hardware={
            "model": "A processor & more",
            "cores": 2,
            "memory_bytes": 25_000_000_000,
            "read_bandwidth": 2.0e10,
            "copy_bandwidth": 1.6e10,
            "peak_flops": {"float32": 1.1e11, "float64": 5.5e10},
        },
        sandbox="bubblewrap + Landlock 7 + seccomp + rlimits",
        notes=("The input `bias` hardly matters",),
    )


def _config() -> dict:  # type: ignore[type-arg]
    return {
        "version": "0.1.0",
        "command": ["warpsmith", "optimize", "examples/soft max", "--iterations", "24"],
        "task_path": "examples/softmax",
        "task": {"name": "softmax", "kind": "numpy"},
        "settings": {},
    }


def _outcome(run: RunFolder, best: str | None, final: Accepted | None) -> dict:  # type: ignore[type-arg]
    names = [attempt.outcome for attempt in run.attempts()]
    return {
        "reason": "patience",
        "iterations": len(names),
        "best": best,
        "counts": {name: names.count(name) for name in set(names)},
        "rejections": {},
        "elapsed": 83.0,
        "device_seconds": 60.0,
        "input_tokens": 0,
        "output_tokens": 0,
        "dollars": 0.0,
        "final": final.model_dump(mode="json") if final else None,
    }
