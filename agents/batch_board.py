"""What is known of each task of a batch: its journal, folded line by line. Pure functions only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from pydantic import Field

from agents.batch import Batch, Beat, Begun, Failed, Granted, Line, Nearing, Plan, Record, Refused, Stopped, Turned
from agents.batch_schedule import FIRST_RATE, Standing, rate_after
from agents.limits import Budget, StopReason

Status: TypeAlias = Literal["waiting", "running", "paused", "ended", "refused", "failed"]
"""`waiting` had no turn yet; `paused` had one and may have more; `ended` for a stop reason; `refused`: the task can't
be used; `failed`: its machine, or we, failed too often in a row."""


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
    lost_dollars: float = 0.0
    lost_tokens: int = 0

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
    low: Mapping[Budget, float] = Field(default_factory=dict)
    """What was used of each shared limit when it was told last that it is nearly reached."""
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


def to_reopen(board: Board, plan: Plan) -> tuple[str, ...]:
    """Ended tasks that go on under a new plan: those that failed, and those that ended for a budget that is another
    now. The others' ends stand."""
    if board.plan is None:
        return ()
    before, after = _bounds(board.plan), _bounds(plan)
    changed = {reason for reason in after if before[reason] != after[reason]}
    over = [state for state in board.tasks.values() if state.status == "failed" or state.reason in changed]
    return tuple(state.key for state in over)


def _bounds(plan: Plan) -> dict[StopReason, tuple[object, ...]]:
    """What may make a task end for each reason."""
    own, shared = plan.settings.budgets, plan.shared
    return {
        "iterations": (own.iterations,),
        "patience": (own.patience,),
        "near_limit": (own.near_limit,),
        "money": (own.dollars, shared.dollars),
        "tokens": (own.tokens, shared.tokens),
        "wall_time": (own.wall_time, shared.wall_time),
        "device_time": (own.device_time, shared.device_time),
    }


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
        case Nearing():
            return {"low": {**board.low, line.budget: line.used}}
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
    spent: dict[str, object] = {"device_seconds": line.device_seconds}
    match line:
        case Refused():
            return spent | {"status": "refused", "message": line.message}
        case Failed():
            failures = 1 if line.progressed else state.failures + 1
            status = "failed" if line.again is None else "paused"
            retried = state.retried + (line.again is not None)
            spent |= {"lost_dollars": line.lost_dollars, "lost_tokens": line.lost_tokens}
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
