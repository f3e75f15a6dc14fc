"""Moves jobs to the process that judges: a small protocol, and the executor that keeps that process on this machine.

The service is a child in its own session, so that a terminal's Ctrl-C never reaches it; it dies with its parent.
Not covered: remote machines (a later executor speaks the same lines through a pipe of its own).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Literal, Protocol, Self, TypeAlias

from pydantic import JsonValue, TypeAdapter
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

from tools.records import BuildReport, Kernel, Profile, QuickResult, TaskFacts, Verdict
from tools.service_process import Progress, ServiceEnded, ServiceProcess
from tools.task import TaskSource

Operation: TypeAlias = Literal["open", "build", "evaluate", "quick", "profile"]

_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)


class Executor(Protocol):
    """Where tasks are opened and kernels built, judged and profiled. Every method may raise
    `TaskError` (the task can't be used), `KernelError` (the kernel's settings are not allowed) and
    `InfrastructureError` (nothing was learnt). Calls may overlap; timings never do."""

    async def open(self, task: TaskSource) -> TaskFacts:
        """Load, audit and time the task's baseline; later calls with the same task return at once."""
        ...

    async def build(self, task: TaskSource, kernel: Kernel) -> BuildReport:
        """Compile only. A compile error is a report with `built=False`, not an exception."""
        ...

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        """The gauntlet. With `incumbent` both are raced and an accepted verdict has `comparison`.
        `final` measures afresh, with the baseline interleaved."""
        ...

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        """Light correctness and a short timing of every kernel, in the order given."""
        ...

    async def profile(self, task: TaskSource, kernel: Kernel, workload: str | None = None) -> Profile:
        """What the machine really does with the kernel on one workload (the heaviest when None)."""
        ...

    async def close(self) -> None:
        """End the service and everything it started."""
        ...


class LocalExecutor:
    """Judges on this machine in one long-lived child process, started at the first call.

    Use as `async with LocalExecutor() as executor:` or call `close()`. Belongs to one event loop.
    """

    def __init__(self, on_progress: Progress | None = None) -> None:
        """`on_progress` is told of each stage that begins ("build", "correct", ...)."""
        self._on_progress = on_progress or (lambda _: None)
        self._service: ServiceProcess | None = None
        self._starting = asyncio.Lock()
        self._ids = itertools.count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, task: TaskSource) -> TaskFacts:
        return TaskFacts.model_validate(await self.call("open", task))

    async def build(self, task: TaskSource, kernel: Kernel) -> BuildReport:
        return BuildReport.model_validate(await self.call("build", task, kernel=_plain(kernel)))

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        answer = await self.call(
            "evaluate", task, kernel=_plain(kernel), incumbent=_plain(incumbent) if incumbent else None, final=final
        )
        return _VERDICT.validate_python(answer)

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        wanted: list[JsonValue] = [_plain(kernel) for kernel in kernels]
        answer = await self.call("quick", task, kernels=wanted, incumbent=_plain(incumbent) if incumbent else None)
        return TypeAdapter(list[QuickResult]).validate_python(answer)

    async def profile(self, task: TaskSource, kernel: Kernel, workload: str | None = None) -> Profile:
        return Profile.model_validate(await self.call("profile", task, kernel=_plain(kernel), workload=workload))

    async def call(self, op: Operation, task: TaskSource, **params: JsonValue) -> JsonValue:
        """Send one request and wait for its result. Cancelling the call kills the job it started.

        When the service dies the request is sent once more to a new one. Raises TaskError, KernelError and
        InfrastructureError.
        """
        again = AsyncRetrying(retry=retry_if_exception_type(ServiceEnded), stop=stop_after_attempt(2), reraise=True)
        try:
            async for attempt in again:
                with attempt:
                    return await self._ask(op, task, params)
        except ServiceEnded as ended:
            raise ended.as_error() from None
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """End the service and everything it started; the executor may be used again."""
        service, self._service = self._service, None
        if service is not None:
            await service.end()

    async def _ask(self, op: Operation, task: TaskSource, params: dict[str, JsonValue]) -> JsonValue:
        async with self._starting:
            if self._service is None or self._service.ended:
                self._service = await ServiceProcess.start(self._on_progress)
            service = self._service
        return await service.ask(
            {"v": 1, "id": str(next(self._ids)), "op": op, "task": task.model_dump(mode="json"), **params}
        )


def _plain(kernel: Kernel) -> JsonValue:
    plain: JsonValue = kernel.model_dump(mode="json")
    return plain
