"""An executor that is given time: what it could not do for reasons of the machine is done again, a few times.

Nothing that fails this way says anything about a kernel: a judge that was killed twice in one job, a GPU that fell off
the bus, a worker ended from outside, a device that another run kept to itself. Tasks and kernels that can't be used are
not tried again, nor is the opening of the task: what never worked here is for a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from agents.models.retry import Stopping
from tools.errors import InfrastructureError
from tools.executor import Executor
from tools.facts import TaskFacts
from tools.machine_code import ListingRequest
from tools.profiles import Profile
from tools.program import Experiment, Program
from tools.protocol import Operation
from tools.records import BuildReport, Kernel, QuickResult, TargetName, Unjudged, Verdict
from tools.task import TaskSource

Found = TypeVar("Found")


class Tell(Protocol):
    """Hears of each failure that is followed by another try."""

    def __call__(self, op: Operation, tries: int, message: str, wait: float) -> None: ...


class Patient:
    """An `Executor`. Between two tries it waits for the next of `waits` (seconds); after the last it gives up."""

    def __init__(self, executor: Executor, waits: Sequence[float], stopping: Stopping, tell: Tell) -> None:
        self._executor = executor
        self._waits = tuple(waits)
        self._stopping = stopping
        self._tell = tell

    async def open(self, task: TaskSource, target: TargetName = "cpu") -> TaskFacts:
        return await self._executor.open(task, target)

    async def build(self, task: TaskSource, kernel: Kernel, listing: ListingRequest | None = None) -> BuildReport:
        return await self._done("build", lambda: self._executor.build(task, kernel, listing))

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        return await self._done("evaluate", lambda: self._executor.evaluate(task, kernel, incumbent, final=final))

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        return await self._done("quick", lambda: self._executor.quick(task, kernels, incumbent))

    async def profile(
        self, task: TaskSource, kernel: Kernel, workload: str | None = None, metrics: Sequence[str] = ()
    ) -> Profile:
        return await self._done("profile", lambda: self._executor.profile(task, kernel, workload, metrics))

    async def experiment(self, task: TaskSource, program: Program) -> Experiment:
        return await self._done("experiment", lambda: self._executor.experiment(task, program))

    async def close(self) -> None:
        await self._executor.close()

    async def _done(self, op: Operation, do: Callable[[], Awaitable[Found]]) -> Found:
        """The first answer that says something; else the last one, or its error."""
        for tries, wait in enumerate(self._waits, 1):
            try:
                found = await do()
                if not isinstance(found, Unjudged):
                    return found
                message = found.message
            except InfrastructureError as error:
                if self._stopping.is_set:
                    raise
                message = error.message
            if self._stopping.is_set:
                break
            self._tell(op, tries, message, wait)
            await self._stopping.sleep(wait)
        return await do()
