"""A batch: many tasks, one shared budget, and what is known of each task, folded from the lines of its journal.

    <runs>/<stamp>-batch-<name>/
      batch.json      a `Batch`: the tasks as they were read, whole, and what was passed over
      queue.jsonl     one `Line` each time that something was decided or came out (`agents.batch_queue`)
      runs/<id>/      the run folder of each task (memory/runs.py), named when the batch is made
      logs/<key>.log  what the task's process said on standard error
      summary.json, summary.md, report.html

What a task's models cost is not in the journal: its run folder's events hold each call, and are the only place to sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from agents.batch_schedule import FIRST_RATE, Standing, rate_after
from agents.limits import StopReason
from agents.settings import RunSettings
from tools.task import TaskSource

Status: TypeAlias = Literal["waiting", "running", "paused", "ended", "refused", "failed"]
"""`waiting` had no turn yet; `paused` had one and may have more; `ended` for a stop reason; `refused`: the task can't
be used; `failed`: its machine, or we, failed too often in a row."""

SHARED_REASONS: tuple[StopReason, ...] = ("money", "tokens", "wall_time", "device_time")
"""Reasons of a run's end that may be the batch's own."""


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
    asked: dict[str, JsonValue] = {}
    """What the command line said about models, for the child processes; never a key."""


class QueuedTask(Record):
    """A task of the batch, self-contained: the user's files may change or go."""

    key: str
    """Its name, made unique in the batch."""
    path: str
    run: str
    """The name of its run folder."""
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


class Refused(Record):
    """The task can't be used: it is not tried again."""

    event: Literal["refused"] = "refused"
    elapsed: float
    task: str
    message: str
    advice: str
    device_seconds: float


class Stopped(Record):
    """The batch's process ended in order. reason: None when every task is over."""

    event: Literal["stopped"] = "stopped"
    elapsed: float
    reason: StopReason | None


Line: TypeAlias = Annotated[Begun | Granted | Beat | Turned | Failed | Refused | Stopped, Field(discriminator="event")]
LINE: TypeAdapter[Line] = TypeAdapter(Line)


class TaskState(Record):
    """What is known of a task."""

    key: str
    status: Status = "waiting"
    turns: int = 0
    waited: int = 0
    """Turns that others were given since its last one began."""
    failures: int = 0
    """In a row, without an iteration between them."""
    retried: int = 0
    """Failures altogether."""
    reason: StopReason | None = None
    """Of an ended task; the batch's, of one that a budget kept from its first turn, is not here."""
    message: str = ""
    """Of a failed or refused task, and of the last failure."""
    iterations: int = 0
    share_of_limit: float | None = None
    rate: float = FIRST_RATE
    device_seconds: float = 0.0

    @property
    def open(self) -> bool:
        """Whether it may have another turn."""
        return self.status in ("waiting", "running", "paused")

    @property
    def standing(self) -> Standing:
        return Standing(self.key, self.turns, self.waited, self.share_of_limit, self.rate)


class Board(Record):
    """All that the journal says."""

    tasks: dict[str, TaskState]
    """By key, in the order of the queue."""
    plan: Plan | None = None
    elapsed: float = 0.0
    stopped: bool = False
    """Whether the last process ended in order."""
    reason: StopReason | None = None

    @classmethod
    def of(cls, batch: Batch, lines: Iterable[Line]) -> Board:
        """Fold the lines. A task that ran when the journal broke off is paused: its run folder goes on from its last
        finished step."""
        board = cls(tasks={task.key: TaskState(key=task.key) for task in batch.tasks})
        for line in lines:
            board = board.after(line)
        return board

    def after(self, line: Line) -> Board:
        """The board once `line` is known."""
        return self.model_copy(update={"elapsed": line.elapsed} | _changes(self, line))

    def changed(self, key: str, **changes: object) -> dict[str, TaskState]:
        return self.tasks | {key: self.tasks[key].model_copy(update=changes)}


def _changes(board: Board, line: Line) -> dict[str, object]:
    match line:
        case Begun():
            tasks = {key: _begun(state, key in line.reopened) for key, state in board.tasks.items()}
            return {"tasks": tasks, "plan": line.plan, "stopped": False, "reason": None}
        case Granted():
            return {"tasks": _granted(board, line)}
        case Beat():
            tasks = dict(board.tasks)
            for key, seconds in line.device.items():
                tasks[key] = tasks[key].model_copy(update={"device_seconds": seconds})
            return {"tasks": tasks}
        case Stopped():
            return {"stopped": True, "reason": line.reason}
        case _:
            return {"tasks": board.changed(line.task, **_ended(board.tasks[line.task], line))}


def _begun(state: TaskState, reopened: bool) -> TaskState:
    if state.status == "running" or reopened:
        return state.model_copy(update={"status": "paused", "reason": None, "message": "", "failures": 0})
    return state


def _granted(board: Board, line: Granted) -> dict[str, TaskState]:
    waiting = {
        key: state.model_copy(update={"waited": state.waited + 1}) if state.open else state
        for key, state in board.tasks.items()
    }
    mine = board.tasks[line.task]
    turns = mine.turns if line.closing is not None else mine.turns + 1
    return waiting | {line.task: mine.model_copy(update={"status": "running", "turns": turns, "waited": 0})}


def _ended(state: TaskState, line: Turned | Failed | Refused) -> dict[str, object]:
    spent = {"device_seconds": line.device_seconds}
    match line:
        case Refused():
            return spent | {"status": "refused", "message": line.message}
        case Failed():
            failures = 1 if line.progressed else state.failures + 1
            status = "failed" if line.again is None else "paused"
            retried = state.retried + (line.again is not None)
            return spent | {"status": status, "message": line.message, "failures": failures, "retried": retried}
        case Turned():
            over = line.reason not in ("turn_over", "user")
            return spent | {
                "status": "ended" if over else "paused",
                "reason": line.reason if over else None,
                "message": "",
                "failures": 0,
                "iterations": line.iterations,
                "share_of_limit": line.share_of_limit,
                "rate": _rate(state, line),
            }


def _rate(state: TaskState, line: Turned) -> float:
    """The moving average over the turn's iterations, its gain spread evenly over them in the logarithm."""
    rate, iterations = state.rate, line.iterations - state.iterations
    before, after = state.share_of_limit, line.share_of_limit
    if iterations <= 0 or before is None or after is None:
        for _ in range(iterations):
            rate = rate_after(rate, before, before)
        return rate
    step = (after / before) ** (1 / iterations)
    for _ in range(iterations):
        rate, before = rate_after(rate, before, before * step), before * step
    return rate
