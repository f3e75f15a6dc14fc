"""What is known of a task before any kernel runs."""

from __future__ import annotations

from pydantic import JsonValue

from tools.records import Interval, Record, TargetName


class BaselineFacts(Record):
    """How long one implementation of the reference takes on a workload."""

    name: str
    """`numpy`, `eager` (PyTorch as it is), `compile` or `compile-max-autotune` (torch.compile)."""
    seconds: float
    """Median."""
    interval: Interval
    samples: int


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
    arithmetic: str = ""
    """In what its arithmetic may be done under the task's policy (`float32`, `tf32`, `bfloat16`...): that one's peak
    sets the limit. `none` where no floats are; empty where it was not written down."""
    baseline_seconds: float
    """Of the fastest baseline."""
    baseline_interval: Interval
    baselines: tuple[BaselineFacts, ...] = ()
    """All that were timed, the slower ones too."""
    limit_seconds: float

    @property
    def baseline(self) -> str:
        """Name of the one that counts; empty where it was not written down."""
        return min(self.baselines, key=lambda each: each.seconds).name if self.baselines else ""


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
