"""What is known of a task before any kernel runs."""

from __future__ import annotations

from pydantic import JsonValue

from tools.records import Interval, Record, TargetName


class WorkloadFacts(Record):
    """What is known of one workload before any kernel runs."""

    workload: str
    weight: float
    inputs: tuple[str, ...]
    """As `name: dtype[shape]`."""
    outputs: tuple[str, ...]
    bytes: float
    """Fewest bytes that must move: each input read once, each output written once."""
    flops: float | None
    baseline_seconds: float
    baseline_interval: Interval
    limit_seconds: float


class TaskFacts(Record):
    """An opened task: audited, its baseline timed, its limit known."""

    task: str
    target: TargetName
    header: str
    """The generated `task.h`."""
    workloads: tuple[WorkloadFacts, ...]
    hardware: dict[str, JsonValue]
    sandbox: str
    """Which confinement is in force, in words."""
    notes: tuple[str, ...] = ()
