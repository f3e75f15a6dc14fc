"""What is told of a task, its baselines and the machine once the task is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from tools.baseline import Baseline
from tools.contract import Scalar, Tensor
from tools.facts import TaskFacts, WorkloadFacts

if TYPE_CHECKING:
    from tools.judge import Judge


def task_facts(judge: Judge, baselines: Sequence[Baseline], notes: tuple[str, ...]) -> TaskFacts:
    """The facts of a task that its judge has opened, with the baselines of each workload; `notes` are what they and the
    reference said."""
    recycled = [name for index, name in enumerate(judge.names) if judge.content.recycles(index)]
    if recycled:
        notes += (
            f"drawing inputs is slow for {', '.join(recycled)}: timed calls get earlier draws with secret changes",
        )
    machine: dict[str, JsonValue] = judge.hardware.model_dump(mode="json")
    return TaskFacts(
        task=judge.source.name,
        target=judge.target.name,
        header=judge.header,
        workloads=tuple(_workload_facts(judge, index, baseline) for index, baseline in enumerate(baselines)),
        hardware=machine | {"bandwidth": judge.hardware.bandwidth, **judge.target.toolchain(), **judge.device.facts()},
        sandbox=judge.device.sandbox.describe(),
        notes=notes,
    )


def _workload_facts(judge: Judge, workload: int, baseline: Baseline) -> WorkloadFacts:
    signature = judge.signatures[workload]
    return WorkloadFacts(
        workload=judge.names[workload],
        weight=judge.weights[workload],
        inputs=tuple(_described(item) for item in signature.inputs),
        outputs=tuple(_described(item) for item in signature.outputs),
        bytes=baseline.bytes,
        flops=baseline.flops,
        arithmetic=judge.arithmetic(workload),
        baseline_seconds=baseline.seconds,
        baseline_interval=baseline.interval,
        baselines=baseline.timed,
        limit_seconds=judge.limit_seconds(workload),
    )


def _described(item: Tensor | Scalar) -> str:
    if isinstance(item, Scalar):
        return f"{item.name}: {item.ctype}"
    return f"{item.name}: {item.dtype}[{', '.join(map(str, item.shape))}]"
