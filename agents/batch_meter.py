"""How long a task keeps its executor busy."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tools.executor import Executor
from tools.facts import TaskFacts
from tools.machine_code import ListingRequest
from tools.profiles import Profile
from tools.program import Experiment, Program
from tools.records import BuildReport, Kernel, QuickResult, TargetName, Verdict
from tools.task import TaskSource


class Metered:
    """An executor and a clock that runs while at least one of its jobs does.

    Opening the task is not counted, as it is not in a run's own budget; waiting for another task's timing is.
    """

    def __init__(self, executor: Executor, before: float = 0.0) -> None:
        """before: seconds that the task had used already."""
        self._executor = executor
        self._sum = before
        self._jobs = 0
        self._since = 0.0

    @property
    def seconds(self) -> float:
        return self._sum + (time.monotonic() - self._since if self._jobs else 0.0)

    async def open(self, task: TaskSource, target: TargetName = "cpu") -> TaskFacts:
        return await self._executor.open(task, target)

    async def build(self, task: TaskSource, kernel: Kernel, listing: ListingRequest | None = None) -> BuildReport:
        with self._running():
            return await self._executor.build(task, kernel, listing)

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        with self._running():
            return await self._executor.evaluate(task, kernel, incumbent, final=final)

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        with self._running():
            return await self._executor.quick(task, kernels, incumbent)

    async def profile(
        self, task: TaskSource, kernel: Kernel, workload: str | None = None, metrics: Sequence[str] = ()
    ) -> Profile:
        with self._running():
            return await self._executor.profile(task, kernel, workload, metrics)

    async def experiment(self, task: TaskSource, program: Program) -> Experiment:
        with self._running():
            return await self._executor.experiment(task, program)

    async def close(self) -> None:
        await self._executor.close()

    @contextmanager
    def _running(self) -> Iterator[None]:
        if not self._jobs:
            self._since = time.monotonic()
        self._jobs += 1
        try:
            yield
        finally:
            self._jobs -= 1
            if not self._jobs:
                self._sum += time.monotonic() - self._since
