"""A batch: many tasks, one shared budget, and the lines of its journal. What they come to: `agents.batch_board`.

    <runs>/<stamp>-batch-<name>/
      batch.json      a `Batch`: the tasks as they were read, whole, and what was passed over
      queue.jsonl     one `Line` each time that something was decided or came out (`agents.batch_queue`)
      runs/<id>/      the run folder of each task (memory/runs.py); its config.json says under `batch_task` whose it is
      logs/<key>.log  what the task's process said on standard error
      summary.json, summary.md, report.html

What a task's models cost is not in the journal: its run folder's events hold each call, and are the only place to sum.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from agents.limits import Budget, StopReason
from agents.settings import RunSettings
from tools.task import TaskSource


class Record(BaseModel):
    """Frozen, closed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SharedBudget(Record):
    """What all tasks of a batch may take together. None is no bound."""

    dollars: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, ge=1)
    wall_time: float | None = Field(default=None, gt=0)
    """Seconds that the batch is at work, over all resumptions."""
    device_time: float | None = Field(default=None, gt=0)
    """Seconds in which a task's executor builds, judges or profiles, summed over the tasks."""


class Plan(Record):
    """How a batch is run; a resumed batch may have another."""

    settings: RunSettings
    """Of every run; its budgets are each task's own."""
    shared: SharedBudget = SharedBudget()
    jobs: int = Field(default=1, ge=1, le=64)
    """Tasks that have a turn at the same time."""
    turn: int = Field(default=5, ge=1)
    """Iterations of one turn."""
    retries: int = Field(default=2, ge=0)
    """Of a task whose machine failed, in a row; an iteration that ended starts the count anew."""
    pause: float = Field(default=10.0, ge=0)
    """Seconds before the first retry; each further one waits twice as long, up to `agents.batch_crew.LONGEST_PAUSE`."""
    executor: str = "local"
    state: str | None = None
    """Where checkpoints are kept, without a password: an address of PostgreSQL, None for the run folders."""
    otel: str | None = None
    """Where traces go; empty for the usual address, None for nowhere unless the environment says where."""
    pause_at_limit: bool = False
    """Wait for a person at a limit instead of ending."""
    asked: dict[str, JsonValue] = {}
    """What the command line said about models, for the child processes; never a key."""


class QueuedTask(Record):
    """A task of the batch, self-contained: the user's files may change or go."""

    key: str
    """Its name, made unique in the batch."""
    path: str
    task: TaskSource


class PassedOver(Record):
    """Something that was named and is no task."""

    path: str
    reason: str
    advice: str = ""


class Batch(Record):
    """`batch.json`."""

    version: str
    """Of warpsmith."""
    name: str
    command: tuple[str, ...] = ()
    tasks: tuple[QueuedTask, ...]
    passed_over: tuple[PassedOver, ...] = ()

    def task(self, key: str) -> QueuedTask:
        return next(task for task in self.tasks if task.key == key)


class Begun(Record):
    """The batch's process began, or began again."""

    event: Literal["begun"] = "begun"
    time: float
    """Unix time."""
    elapsed: float
    """Seconds at work so far, in this line and in all others."""
    plan: Plan
    reopened: tuple[str, ...] = ()
    """Tasks that had ended and go on, since the budget that ended them is larger."""


class Granted(Record):
    """A turn begins. closing: why the batch ends; the run then only measures its winner afresh."""

    event: Literal["granted"] = "granted"
    elapsed: float
    task: str
    closing: StopReason | None = None


class Beat(Record):
    """What is spent by now, so that a kill loses no more than one of these. device: seconds by task."""

    event: Literal["beat"] = "beat"
    elapsed: float
    device: dict[str, float] = {}


class Turned(Record):
    """A turn is over: `turn_over` and `user` leave the task paused, every other reason ends it."""

    event: Literal["turned"] = "turned"
    elapsed: float
    task: str
    reason: StopReason
    iterations: int
    share_of_limit: float | None
    device_seconds: float
    """Of the task so far, in this line and in all others."""


class Failed(Record):
    """A turn broke off for a fault that is nobody's verdict. again: seconds until the next try; None gives up."""

    event: Literal["failed"] = "failed"
    elapsed: float
    task: str
    kind: str
    message: str
    progressed: bool
    """Whether an iteration ended since the turn began."""
    again: float | None
    device_seconds: float
    lost_dollars: float = 0.0
    """What calls in flight may have cost at most when the task's process died, all deaths so far together; it counts
    as spent."""
    lost_tokens: int = 0


class Refused(Record):
    """The task can't be used: it is not tried again."""

    event: Literal["refused"] = "refused"
    elapsed: float
    task: str
    message: str
    advice: str
    device_seconds: float


class Nearing(Record):
    """It was told that a shared limit is nearly reached. used, limit: US dollars, tokens or seconds."""

    event: Literal["nearing"] = "nearing"
    elapsed: float
    budget: Budget
    used: float
    limit: float


class Stopped(Record):
    """The batch's process ended in order. reason: None when every task is over."""

    event: Literal["stopped"] = "stopped"
    elapsed: float
    reason: StopReason | None


Line: TypeAlias = Annotated[
    Begun | Granted | Beat | Turned | Failed | Refused | Nearing | Stopped, Field(discriminator="event")
]
LINE: TypeAdapter[Line] = TypeAdapter(Line)
