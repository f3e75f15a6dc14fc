"""The batch's own process: gives turns to tasks, each in a process of its own, until all are over or a budget is.

It is small and does nothing risky: no kernel, no task's code and no model's reply is touched here. All that it knows is
in the journal, so it can be killed at any moment too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.batch import Granted, Plan, QueuedTask
from agents.batch_board import Board
from agents.batch_books import Books, OnBatchEvent
from agents.batch_child import Child
from agents.batch_lines import Answer, Ask, Broke, Done, Halt, Happened, Report, Settle, Turn
from agents.batch_queue import BatchFolder
from agents.batch_schedule import choose
from agents.limits import StopReason
from memory.files import Json

BEAT_SECONDS = 30.0
CUT_SECONDS = 15.0
"""How long a task's process may take to end at once before it is killed."""


@dataclass
class Crew:
    """Runs a batch once. Belongs to one event loop; `halt` may be called from its signal handlers."""

    folder: BatchFolder
    plan: Plan
    command: Callable[[str], Sequence[str]]
    """The command line of a task's process, by the task's key."""
    config: Callable[[QueuedTask], Json]
    """What is written down of a task's run when it begins."""
    on_event: OnBatchEvent
    environ: Mapping[str, str] = field(default_factory=dict)
    """What a task's process has beside this one's environment."""
    halted: bool = False
    books: Books = field(init=False)
    _children: dict[str, Child] = field(default_factory=dict)
    """Those in a turn, by the task's key."""
    _cutting: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> Board:
        """Give turns until none is left to give; returns what is known then.

        Raises RunFolderError: another process runs the batch, or its folder can't be read or written.
        """
        self._batch = self.folder.batch()
        self._changed = asyncio.Event()
        with self.folder.journal() as journal:
            self.books = Books(self.folder, self.plan, journal, self.on_event)
            self.books.begin()
            seats = [asyncio.create_task(self._seat()) for _ in range(self.plan.jobs)]
            beats = asyncio.create_task(self._beats())
            try:
                await asyncio.gather(*seats)
            finally:
                for task in (*seats, beats, *self._cutting):
                    task.cancel()
                await asyncio.gather(*seats, beats, return_exceptions=True)
            self.books.stop(self.halted)
        return self.books.board

    def halt(self, at_once: bool = False) -> None:
        """Begin no more turns; those that go on end with their step, or at once."""
        self.halted = True
        self.books.tell("halting", at_once=at_once)
        for child in self._children.values():
            child.send(Halt(at_once=at_once))
            if at_once:
                self._cutting.add(asyncio.create_task(_cut_later(child)))
        self._changed.set()

    @property
    def spent(self) -> tuple[float, int, float]:
        """Dollars, tokens and device seconds of all tasks so far."""
        return self.books.pool.spent if hasattr(self, "books") else (0.0, 0, 0.0)

    async def _seat(self) -> None:
        """One job: turn after turn, in the same process while it is the same task's."""
        child: Child | None = None
        try:
            while (granted := await self._next()) is not None:
                if child is not None and child.key != granted.task:
                    await child.leave()
                    child = None
                child = await self._turn(child, granted)
        finally:
            if child is not None:
                await child.leave()

    async def _next(self) -> Granted | None:
        """The next turn, already in the journal; waits while there may be one later, None when there can be none."""
        while not self.halted:
            self._changed.clear()
            over = self.books.over
            key = self._to_close() if over is not None else self._to_go_on()
            if key is not None:
                return self.books.grant(key, over)
            if not self._expects_more(over):
                self._changed.set()
                return None
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._patience(over))
        return None

    def _to_go_on(self) -> str | None:
        states = self.books.states
        ready = [s.standing for s in states if s.status in ("waiting", "paused") and self.books.may(s.key)]
        return choose(ready, sum(state.open for state in states))

    def _to_close(self) -> str | None:
        """A task whose winner is still to be measured afresh, now that the budget is spent."""
        return next((s.key for s in self.books.states if s.status == "paused" and self.books.may(s.key)), None)

    def _expects_more(self, over: StopReason | None) -> bool:
        """Whether a task has a turn now, or is to be tried again later."""
        going = {"running", "paused"} if over is not None else {"running", "paused", "waiting"}
        return any(state.status in going for state in self.books.states)

    def _patience(self, over: StopReason | None) -> float | None:
        """Seconds until something may be ready without anybody's word."""
        books = self.books
        ends = [books.pause(s.key) for s in books.states if s.status in ("waiting", "paused") and not books.may(s.key)]
        ends += [books.left] if books.left is not None and over is None else []
        return max(0.01, min(ends)) if ends else None

    async def _turn(self, child: Child | None, granted: Granted) -> Child | None:
        """One turn to its end; the process, when it can be given another."""
        key, progressed = granted.task, False
        try:
            child = child or await self._start(key)
            self._children[key] = child
            child.send(self._order(granted))
            while (report := await child.report()) is not None:
                self._hear(child, report)
                progressed = progressed or (isinstance(report, Happened) and report.event == "iteration_ended")
                if isinstance(report, Done | Broke):
                    return await self._over_with(child, report, progressed)
            self.books.pool.leave(key)
            self.books.fail(key, "process", await child.how_it_ended(), progressed)
            return None
        except OSError as error:
            self.books.fail(key, "process", f"the task's process can't be started: {error.strerror}", progressed)
            return None
        except BaseException:
            if child is not None:
                await child.kill()
            raise
        finally:
            self._children.pop(key, None)
            self._changed.set()

    async def _start(self, key: str) -> Child:
        task = self._batch.task(key)
        self.folder.begin_run(task, self.config(task))
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        environ = os.environ | {"PYTHONPATH": path, "PYTHONUTF8": "1"} | dict(self.environ)
        return await Child.start(key, self.command(key), environ, self.folder.path / "logs" / f"{key}.log")

    def _order(self, granted: Granted) -> Turn:
        return Turn(
            iterations=self.plan.turn,
            left=self.books.left,
            device_seconds=self.books.pool.accounts[granted.task].device,
            closing=granted.closing,
        )

    def _hear(self, child: Child, report: Report) -> None:
        key, pool = child.key, self.books.pool
        pool.used_device(key, report.device_seconds)
        match report:
            case Ask():
                child.asks[report.number] = asyncio.create_task(self._answer(child, report))
            case Settle():
                if (asked := child.asks.pop(report.number, None)) is not None:
                    asked.cancel()
                pool.settle(key, report.number, report.dollars, report.tokens)
            case Happened():
                self.books.tell("happened", key, event=report.event, fields=report.fields)
                self.books.tell_low()
            case _:
                pass

    async def _answer(self, child: Child, ask: Ask) -> None:
        refused = await self.books.pool.take(child.key, ask.number, ask.dollars, ask.tokens)
        child.send(Answer(number=ask.number, refused=refused))

    async def _over_with(self, child: Child, report: Done | Broke, progressed: bool) -> Child | None:
        """Write down how a turn ended; the process, when it can be given another."""
        key, books = child.key, self.books
        books.pool.leave(key)
        if isinstance(report, Done) and report.reason != "models_unavailable":
            books.turned(key, report)
            if books.board.tasks[key].status == "paused":
                return child
        elif isinstance(report, Done):
            books.fail(key, "models", "no model could be reached", progressed)
        elif report.kind == "infrastructure":
            books.fail(key, "infrastructure", report.message, progressed)
        else:
            books.refuse(key, report)
        await child.leave()
        return None

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.books.beat()

    _changed: asyncio.Event = field(init=False)


async def _cut_later(child: Child) -> None:
    await asyncio.sleep(CUT_SECONDS)
    await child.kill()
