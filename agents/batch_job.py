"""The process of one task of a batch: it drives the task's run a turn at a time, as the batch's process says.

Whatever ends this process (a crash, the kernel's out-of-memory killer, a bug of ours) ends one task's turn and nothing
else: the run folder goes on from its last finished step in the next process. It dies with the batch's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agents.batch_lines import LINE_LIMIT, ORDER, Answer, Ask, Broke, Done, Halt, Happened, Order, Report, Settle, Turn
from agents.batch_meter import Metered
from agents.batch_queue import time_at_work
from agents.casting import ReadAgain
from agents.control import Control
from agents.drive import optimize
from agents.events import Event, OnEvent
from agents.limits import StopReason
from agents.models.base import Usage
from agents.models.catalogue import Catalogue
from agents.models.connections import Connections
from agents.models.money import BudgetSpent
from agents.outcome import Outcome
from agents.settings import RunSettings
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.errors import InfrastructureError, KernelError, TaskError, WarpsmithError
from tools.executor import Executor
from tools.task import TaskSource

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SACRIFICE = "500"
"""Added to the score by which the kernel's out-of-memory killer chooses: a task's process goes before the batch's."""
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (TaskError, "task"),
    (KernelError, "kernel"),
    (InfrastructureError, "infrastructure"),
    (RunFolderError, "infrastructure"),
    (WarpsmithError, "settings"),
)


@dataclass
class Work:
    """What the process was started for."""

    task: TaskSource
    settings: RunSettings
    run: RunFolder
    executor: Executor
    connections: Connections | None = None
    catalogue: Catalogue | None = None
    state: str | None = None
    """Where checkpoints are kept; as of `agents.drive.optimize`."""
    on_event: OnEvent | None = None
    """Hears the run's events too."""
    read_again: ReadAgain | None = None
    """As of `agents.drive.optimize`."""


class Share:
    """What this task pays from together with the others: asks the batch's process before each call."""

    def __init__(self, tell: Callable[[Report], None], metered: Metered, over: StopReason | None) -> None:
        self.over = over
        self._tell, self._metered = tell, metered
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[StopReason | None]] = {}
        self._paid = (0.0, 0)

    @asynccontextmanager
    async def holding(self, dollars: float, tokens: int) -> AsyncIterator[None]:
        """Raises BudgetSpent when the batch's limit is reached."""
        if self.over is not None:
            raise BudgetSpent(self.over)
        number = next(self._numbers)
        self._asked[number] = asyncio.get_running_loop().create_future()
        self._tell(Ask(number=number, dollars=dollars, tokens=tokens, device_seconds=self._metered.seconds))
        try:
            refused = await self._asked[number]
            if refused is not None:
                self.over = refused
                raise BudgetSpent(refused)
            yield
        finally:
            del self._asked[number]
            (paid, used), self._paid = self._paid, (0.0, 0)
            self._tell(Settle(number=number, dollars=paid, tokens=used, device_seconds=self._metered.seconds))

    def pay(self, usage: Usage) -> None:
        """Goes out with the next call that is over, which is this one unless another ends in the same moment."""
        dollars, tokens = self._paid
        self._paid = (dollars + (usage.dollars or 0.0), tokens + usage.input_tokens + usage.output_tokens)

    def answer(self, answer: Answer) -> None:
        asked = self._asked.get(answer.number)
        if asked is not None and not asked.done():
            asked.set_result(answer.refused)


@dataclass
class _Job:
    work: Work
    tell: Callable[[Report], None]
    control: Control = field(default_factory=Control)
    share: Share | None = None

    def heed(self, order: Answer | Halt) -> None:
        if isinstance(order, Answer):
            if self.share is not None:
                self.share.answer(order)
        elif order.at_once:
            self.control.stop("user", grace=0.0)
        else:
            self.control.finish("user")

    async def turn(self, order: Turn) -> None:
        """One turn, and word of how it ended."""
        metered = Metered(self.work.executor, order.device_seconds)
        self.share = Share(self.tell, metered, order.closing)
        self.control = Control()
        try:
            outcome = await self._drive(order, metered, self.share)
        except (WarpsmithError, RunFolderError) as error:
            kind = next(kind for cls, kind in _KINDS if isinstance(error, cls))
            broke = {"kind": kind, "message": error.message, "advice": error.advice}
            self.tell(Broke.model_validate(broke | {"device_seconds": metered.seconds}))
            return
        best = None if outcome.best is None else self.work.run.attempt(outcome.best)
        self.tell(
            Done(
                reason=outcome.reason,
                iterations=outcome.iterations,
                share_of_limit=None if best is None else best.share_of_limit,
                device_seconds=metered.seconds,
            )
        )

    async def _drive(self, order: Turn, metered: Metered, share: Share) -> Outcome:
        left = order.iterations

        def heard(event: Event) -> None:
            nonlocal left
            happened = Happened(event=event.event, fields=event.fields, device_seconds=metered.seconds)
            self.tell(happened)
            if self.work.on_event is not None:
                self.work.on_event(event)
            if event.event == "iteration_ended":
                left -= 1
                if left <= 0 and event.fields["iteration"] != event.fields["iterations"]:
                    self.control.drain("turn_over")

        work = self.work
        return await optimize(
            work.task,
            within(work.settings, work.run, order.left),
            work.run,
            metered,
            heard,
            control=self.control,
            connections=work.connections,
            catalogue=work.catalogue,
            common=share,
            state=work.state,
            read_again=work.read_again,
        )


def within(settings: RunSettings, run: RunFolder, left: float | None) -> RunSettings:
    """The settings with no more wall time than the batch has left, in seconds."""
    if left is None:
        return settings
    bound = time_at_work(run) + max(left, 0.001)
    own = settings.budgets.wall_time
    budgets = settings.budgets.model_copy(update={"wall_time": bound if own is None else min(own, bound)})
    return settings.model_copy(update={"budgets": budgets})


async def serve(work: Work) -> None:
    """Take orders on standard input and report on standard output, until the input ends. Closes the executor."""
    orders, tell = await _channel()
    job = _Job(work, tell)
    turn: asyncio.Task[None] | None = None
    heard = asyncio.ensure_future(orders.readline())
    try:
        with work.run.alone():
            while True:
                await asyncio.wait({heard, *filter(None, [turn])}, return_when=asyncio.FIRST_COMPLETED)
                if turn is not None and turn.done():
                    turn.result()
                    turn = None
                if not heard.done():
                    continue
                if not (line := heard.result()):
                    return
                heard = asyncio.ensure_future(orders.readline())
                order: Order = ORDER.validate_json(line)
                if isinstance(order, Turn):
                    turn = asyncio.create_task(job.turn(order))
                else:
                    job.heed(order)
    finally:
        heard.cancel()
        if turn is not None:
            turn.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await turn
        await work.executor.close()


def prepare() -> None:
    """To be called first in the process: it dies with its parent, offers itself to the out-of-memory killer, and leaves
    Ctrl-C to its parent."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_SACRIFICE)


async def _channel() -> tuple[asyncio.StreamReader, Callable[[Report], None]]:
    """The two pipes; what anything else prints goes to standard error."""
    lines, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), lines)

    def tell(report: Report) -> None:
        data = memoryview(report.model_dump_json().encode() + b"\n")
        while data:
            data = data[os.write(answers, data) :]

    return reader, tell
