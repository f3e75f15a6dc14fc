"""What a batch came to, read back from its folder: one record for the terminal, the report and `--json`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from agents.batch import PassedOver, Plan, QueuedTask
from agents.batch_board import Board, Status, TaskState
from agents.batch_queue import BatchFolder, time_at_work
from agents.batch_scores import Scores, scores
from agents.limits import STOP_WORDS, StopReason
from agents.rewards import of_attempt
from app.claim import NOT_CONFIRMED
from app.plain import one_line
from app.quantities import times
from app.report import baseline_name
from app.summary import Summary, summarize
from memory.runs import RunFolder


class TaskRow(BaseModel):
    """One task. Times are seconds; what is not known is None, never a made-up figure."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    path: str
    run: str | None
    """The run folder; None when it had no turn."""
    status: Status
    reason: StopReason | None
    ending: str
    """Why it ended, or has not, in words."""
    baseline: str
    """What `speedup` is against: NumPy or PyTorch."""
    start_seconds: float | None = None
    best_seconds: float | None = None
    measured: Literal["afresh", "in the run"] | None = None
    claim: str = ""
    """What may be claimed against the starting kernel, in a word or two."""
    gain: float | None = None
    """Starting kernel's time / best time; None where the last race did not confirm one."""
    speedup: float | None = None
    """Baseline's time / best time."""
    share_of_limit: float | None = None
    cores_used_by_others: float | None = None
    """Present when other programs disturbed the measurement of these figures."""
    reward: Literal[-1, 1, 2, 3] | None = None
    attempts: int = 0
    accepted: int = 0
    iterations: int = 0
    turns: int = 0
    retries: int = 0
    """Turns that broke off for a fault of the machine and were made again."""
    dollars: float | None = 0.0
    tokens: int = 0
    unpriced_tokens: int = 0
    device_seconds: float = 0.0
    elapsed: float = 0.0
    """The run's time at work."""

    @property
    def gained(self) -> str:
        """The claim, in summaries of older versions the gain alone."""
        return self.claim or times(self.gain)

    @property
    def counts(self) -> bool:
        """Whether it is in the figures over all tasks: everything that could be judged is."""
        return self.status != "refused"


class BatchSummary(BaseModel):
    """`summary.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch: str
    path: str
    state: Literal["ended", "open"]
    """`open`: some task may go on, with `warpsmith batch --resume`."""
    reason: StopReason | None
    """Why an open batch stopped; None when it ended, or was killed."""
    plan: Plan
    tasks: tuple[TaskRow, ...]
    passed_over: tuple[PassedOver, ...]
    scores: Scores
    begun: int
    """How often the batch was begun: 1, and once more for each resumption."""
    elapsed: float
    """The batch's time at work."""
    dollars: float
    tokens: int
    unpriced_tokens: int
    device_seconds: float
    lost_dollars: float
    """What calls in flight may have cost at most when a task's process died. It counts against the budget, and is in no
    other sum here; `lost_tokens` too."""
    lost_tokens: int

    @property
    def all_found(self) -> bool:
        """Whether every task that could be judged has an accepted kernel."""
        return self.scores.tasks > 0 and self.scores.correct == self.scores.tasks


def summarize_batch(folder: BatchFolder, earlier: BatchSummary | None = None) -> BatchSummary:
    """Read a batch's folder, ended or not. Raises RunFolderError when it can't be read.

    earlier: an older summary of it; what it says of a task that was over by then is not read again.
    """
    batch, lines = folder.batch(), folder.lines()
    board = Board.of(batch, lines)
    known = {} if earlier is None else {row.task: row for row in earlier.tasks}
    rows = tuple(
        _still(known.get(task.key), board.tasks[task.key]) or _row(folder.run_of(task.key), task, board.tasks[task.key])
        for task in batch.tasks
    )
    counted = [row for row in rows if row.counts]
    states = board.tasks.values()
    return BatchSummary(
        batch=folder.path.name,
        path=str(folder.path),
        state="open" if any(state.open for state in states) else "ended",
        reason=board.reason,
        plan=board.plan or Plan.model_validate({"settings": {}}),
        tasks=rows,
        passed_over=batch.passed_over,
        scores=scores([r.speedup for r in counted], [_counted_gain(r) for r in counted], [r.reward for r in counted]),
        begun=sum(line.event == "begun" for line in lines),
        elapsed=board.elapsed,
        dollars=sum(row.dollars or 0.0 for row in rows),
        tokens=sum(row.tokens for row in rows),
        unpriced_tokens=sum(row.unpriced_tokens for row in rows),
        device_seconds=sum(row.device_seconds for row in rows),
        lost_dollars=sum(state.lost_dollars for state in states),
        lost_tokens=sum(state.lost_tokens for state in states),
    )


def _still(row: TaskRow | None, state: TaskState) -> TaskRow | None:
    """The earlier row, where the task was over and has not gone on since."""
    if row is None or state.open or (row.status, row.turns, row.retries) != (state.status, state.turns, state.retried):
        return None
    return row


def _counted_gain(row: TaskRow) -> float | None:
    """What it adds to a mean of gains: 1 where one was claimed and could not be confirmed."""
    return 1.0 if row.gain is None and row.claim == NOT_CONFIRMED else row.gain


def _row(run: RunFolder | None, task: QueuedTask, state: TaskState) -> TaskRow:
    known = {
        "task": task.key,
        "path": task.path,
        "status": state.status,
        "reason": state.reason,
        "ending": _ending(state),
        "turns": state.turns,
        "retries": state.retried,
        "iterations": state.iterations,
        "device_seconds": state.device_seconds,
        "baseline": "PyTorch" if task.task.kind == "kernelbench" else "NumPy",
    }
    if run is None:
        return TaskRow.model_validate(known | {"run": None})
    summary = summarize(run)
    total = summary.spending.total
    names = ("start_seconds", "best_seconds", "measured", "gain", "speedup", "share_of_limit", "cores_used_by_others")
    found = {name: getattr(summary, name) for name in (*names, "attempts", "accepted")}
    return TaskRow.model_validate(
        known
        | found
        | {
            "run": str(run.path),
            "claim": summary.claim.brief if summary.claim is not None else "",
            "baseline": baseline_name(run),
            "iterations": max(state.iterations, *(a.iteration for a in run.attempts()), 0),
            "reward": _reward(run, summary),
            "dollars": total.dollars,
            "tokens": total.tokens,
            "unpriced_tokens": total.unpriced_tokens,
            "elapsed": time_at_work(run),
        }
    )


def _reward(run: RunFolder, summary: Summary) -> int | None:
    """Of the best kernel by the figures that are shown; -1 when all that was judged was wrong."""
    if summary.best is None:
        return -1 if summary.counts.get("rejected") else None
    figures = {
        "seconds": summary.best_seconds,
        "speedup": summary.speedup,
        "share_of_limit": summary.share_of_limit,
    }
    gained = None if summary.start_seconds is None or summary.best_seconds is None else summary.gain or 1.0
    start = None if gained is None or summary.best_seconds is None else summary.best_seconds * gained
    reward = of_attempt(run.attempt(summary.best).model_copy(update=figures), start)
    return None if reward is None else reward.steps


def _ending(state: TaskState) -> str:
    match state.status:
        case "ended":
            return STOP_WORDS[state.reason] if state.reason else ""
        case "refused" | "failed":
            return f"{state.status}: {one_line(state.message)}"
        case "waiting":
            return "had no turn yet"
        case "paused":
            return f"may go on; last failure: {one_line(state.message)}" if state.message else "may go on"
        case _:
            return "has a turn, or was stopped from outside"
