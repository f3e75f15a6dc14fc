"""What a running batch knows and writes down: the journal, the board that follows from it, the clock and the pool."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from pydantic import JsonValue

from agents.batch import Beat, Begun, Failed, Granted, Line, Nearing, Plan, Record, Refused, Stopped, Turned
from agents.batch_board import TaskState, to_reopen
from agents.batch_budget import Account, Pool
from agents.batch_lines import Broke, Done
from agents.batch_queue import BatchFolder, QueueJournal
from agents.limits import NEARLY, StopReason, nearly_used, spending
from agents.models.costs import spent_so_far
from agents.settings import Budgets
from agents.state import NOTHING_SPENT, Spent

LONGEST_PAUSE = 600.0
"""Seconds between two tries."""
Kind: TypeAlias = Literal[
    "begun", "granted", "happened", "turned", "failed", "refused", "halting", "nearing", "paused", "stopped"
]


class BatchEvent(Record):
    """Something that happened, for whoever watches.

    kind      fields
    begun     tasks, jobs, elapsed
    granted   turn (number), closing (reason | null)
    happened  event, fields: an event of the task's run (agents/events.py)
    turned    status, reason, iterations, share_of_limit | null
    failed    message, again (seconds | null)
    refused   message, advice
    halting   at_once
    nearing   budget, used, limit: 80 % of a shared limit are gone
    paused    reason, go_on: the batch waits for a person
    stopped   reason | null, elapsed
    """

    kind: Kind
    task: str | None
    fields: dict[str, JsonValue]


OnBatchEvent: TypeAlias = Callable[[BatchEvent], None]


class Books:
    """All writing of the batch's process. Raises RunFolderError when its folder can't be written."""

    def __init__(self, folder: BatchFolder, plan: Plan, journal: QueueJournal, on_event: OnBatchEvent) -> None:
        self.plan = plan
        self.board = folder.board()
        self.pool = Pool(plan.shared, {key: _account(folder, state) for key, state in self.board.tasks.items()})
        self._journal, self._on_event = journal, on_event
        self._origin = time.monotonic() - self.board.elapsed
        self._not_before: dict[str, float] = {}

    @property
    def states(self) -> list[TaskState]:
        return list(self.board.tasks.values())

    @property
    def elapsed(self) -> float:
        """Seconds at work, over all resumptions."""
        return time.monotonic() - self._origin

    @property
    def left(self) -> float | None:
        """Seconds that are left of the batch's time."""
        return None if self.plan.shared.wall_time is None else self.plan.shared.wall_time - self.elapsed

    @property
    def over(self) -> StopReason | None:
        """The shared limit that is reached, if one is."""
        return "wall_time" if self.left is not None and self.left <= 0 else self.pool.over

    def may(self, key: str) -> bool:
        """Whether the pause after a failure is over."""
        return self.pause(key) <= 0

    def pause(self, key: str) -> float:
        """Seconds until a task may be tried again."""
        return self._not_before.get(key, 0.0) - time.monotonic()

    def begin(self) -> None:
        reopened = to_reopen(self.board, self.plan) if self.over is None else ()
        self._write(Begun(time=time.time(), elapsed=self.elapsed, plan=self.plan, reopened=reopened))
        self.tell("begun", tasks=len(self.board.tasks), jobs=self.plan.jobs, elapsed=self.elapsed)

    def grant(self, key: str, closing: StopReason | None) -> Granted:
        granted = Granted(elapsed=self.elapsed, task=key, closing=closing)
        self._write(granted)
        self.tell("granted", key, turn=self.board.tasks[key].turns, closing=closing)
        return granted

    def beat(self) -> None:
        running = [state.key for state in self.states if state.status == "running"]
        self._write(Beat(elapsed=self.elapsed, device={key: self.pool.accounts[key].device for key in running}))

    def turned(self, key: str, done: Done) -> None:
        line = Turned(
            elapsed=self.elapsed,
            task=key,
            reason=done.reason,
            iterations=done.iterations,
            share_of_limit=done.share_of_limit,
            device_seconds=self.pool.accounts[key].device,
        )
        self._write(line)
        fields = line.model_dump(mode="json", include={"reason", "iterations", "share_of_limit"})
        self.tell("turned", key, status=self.board.tasks[key].status, **fields)

    def fail(self, key: str, kind: str, message: str, progressed: bool) -> None:
        """Nothing was learnt about the kernel: it is tried again later, so many times."""
        account = self.pool.accounts[key]
        failures = 1 if progressed else self.board.tasks[key].failures + 1
        again = min(self.plan.pause * 2 ** (failures - 1), LONGEST_PAUSE) if failures <= self.plan.retries else None
        self._write(
            Failed(
                elapsed=self.elapsed,
                task=key,
                kind=kind,
                message=message,
                progressed=progressed,
                again=again,
                device_seconds=account.device,
                lost_dollars=account.lost_dollars,
                lost_tokens=account.lost_tokens,
            )
        )
        self._not_before[key] = time.monotonic() + (again or 0.0)
        self.tell("failed", key, message=message, again=again)

    def refuse(self, key: str, broke: Broke) -> None:
        device, message, advice = self.pool.accounts[key].device, broke.message, broke.advice
        self._write(Refused(elapsed=self.elapsed, task=key, message=message, advice=advice, device_seconds=device))
        self.tell("refused", key, message=message, advice=advice)

    def stop(self, halted: bool) -> None:
        left = any(state.open for state in self.states)
        reason: StopReason | None = ("user" if halted else self.over) if left else None
        self._write(Stopped(elapsed=self.elapsed, reason=reason))
        self.tell("stopped", reason=reason, elapsed=self.elapsed)

    def tell_low(self) -> None:
        """Of each shared limit that is nearly reached, once; again when it was raised since."""
        dollars, tokens, device = self.pool.spent
        spent = Spent(**NOTHING_SPENT | {"dollars": dollars, "output_tokens": tokens, "device_seconds": device})
        for gauge in nearly_used(spending(spent, self.elapsed, Budgets(**self.plan.shared.model_dump()))):
            if self.board.low.get(gauge.budget, 0.0) / gauge.limit < NEARLY:
                self._write(Nearing(elapsed=self.elapsed, **gauge._asdict()))
                self.tell("nearing", **gauge._asdict())

    def tell(self, kind: Kind, task: str | None = None, **fields: JsonValue) -> None:
        self._on_event(BatchEvent(kind=kind, task=task, fields=fields))

    def _write(self, line: Line) -> None:
        self._journal.add(line)
        self.board = self.board.after(line)


def _account(folder: BatchFolder, state: TaskState) -> Account:
    """What the task has spent so far: on models by its run's own events, the rest by the journal."""
    run = folder.run_of(state.key)
    spent = spent_so_far([] if run is None else run.events())
    return Account(
        dollars=spent["dollars"],
        tokens=spent["input_tokens"] + spent["output_tokens"],
        device=state.device_seconds,
        lost_dollars=state.lost_dollars,
        lost_tokens=state.lost_tokens,
    )
