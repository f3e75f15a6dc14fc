"""Moves jobs to a process that judges, on this machine or behind a command that reaches another one.

Both are the same lines over pipes (`tools.protocol`); they differ in what is started and in what its end means. What
happens to the process or on the way to it is never a verdict: the job is sent again, or it is an InfrastructureError.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import shlex
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, Self, TypeVar, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from tools.errors import InfrastructureError, WarpsmithError
from tools.facts import TaskFacts
from tools.job_process import JobProcess, ProcessEnded, Progress
from tools.machine_code import ListingRequest
from tools.profiles import Profile, StaticProfile
from tools.program import Experiment, Program
from tools.protocol import SILENCE_SECONDS, Job, Operation
from tools.records import BuildReport, Kernel, QuickResult, TargetName, Verdict
from tools.service_process import ServiceProcess
from tools.task import TaskSource
from tools.worker_process import GREETING_SECONDS, WorkerProcess

LOCAL = "local"
COMMAND = "command:"

_Answer = TypeVar("_Answer")
_FACTS = TypeAdapter(TaskFacts)
_BUILD = TypeAdapter(BuildReport)
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)
_QUICK: TypeAdapter[list[QuickResult]] = TypeAdapter(list[QuickResult])
_PROFILE = TypeAdapter(Profile)
_STATIC_PROFILE = TypeAdapter(StaticProfile)
_EXPERIMENT = TypeAdapter(Experiment)


class Executor(Protocol):
    """Where tasks are opened and kernels built, judged and profiled. Every method may raise
    `TaskError` (the task can't be used), `KernelError` (the kernel's settings are not allowed) and
    `InfrastructureError` (nothing was learnt). Calls may overlap; timings never do."""

    async def open(self, task: TaskSource, target: TargetName = "cpu") -> TaskFacts:
        """Load, audit and time the task's baseline; later calls with the same task return at once."""
        ...

    async def build(self, task: TaskSource, kernel: Kernel, listing: ListingRequest | None = None) -> BuildReport:
        """Compile only. A compile error is a report with `built=False`, not an exception. With `listing` the report
        of a kernel that was built has that machine code."""
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

    async def profile(
        self, task: TaskSource, kernel: Kernel, workload: str | None = None, metrics: Sequence[str] = ()
    ) -> Profile:
        """What the machine really does with the kernel on one workload (the heaviest when None). `metrics` are further
        counters of a GPU, by the names of its profiler."""
        ...

    async def experiment(self, task: TaskSource, program: Program) -> Experiment:
        """Build and run a program that answers a question to the hardware, with the device to itself. What it prints
        is its own claim."""
        ...

    async def close(self) -> None:
        """End the service and everything it started."""
        ...


class ProcessExecutor:
    """Does jobs in one long-lived child process, started at the first call and replaced when it ends.

    Use as `async with … as executor:` or call `close()`. Belongs to one event loop.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[JobProcess]],
        on_progress: Progress | None,
        *,
        attempts: int,
        pause: float,
    ) -> None:
        """A job may lose its process `attempts` times; after the first time the next try waits for `pause` seconds,
        then twice as long."""
        self._start = start
        self._on_progress = on_progress or (lambda _: None)
        self._attempts, self._pause = attempts, pause
        self._service: JobProcess | None = None
        self._targets: dict[str, object] = {}
        """By task, as it was opened."""
        self._starting = asyncio.Lock()
        self._ids = itertools.count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, task: TaskSource, target: TargetName = "cpu") -> TaskFacts:
        return _read(_FACTS, await self.call("open", task, target=target))

    async def build(self, task: TaskSource, kernel: Kernel, listing: ListingRequest | None = None) -> BuildReport:
        return _about(kernel, _read(_BUILD, await self.call("build", task, kernel=kernel, listing=listing)))

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        answer = await self.call("evaluate", task, kernel=kernel, incumbent=incumbent, final=final)
        return _about(kernel, _read(_VERDICT, answer))

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        answer = await self.call("quick", task, kernels=tuple(kernels), incumbent=incumbent)
        results = _read(_QUICK, answer)
        if len(results) != len(kernels):
            raise InfrastructureError(f"the judge answered for {len(results)} kernels instead of {len(kernels)}")
        return [_about(kernel, result) for kernel, result in zip(kernels, results, strict=True)]

    async def profile(
        self, task: TaskSource, kernel: Kernel, workload: str | None = None, metrics: Sequence[str] = ()
    ) -> Profile:
        further = tuple(metrics) or None
        answer = await self.call("profile", task, kernel=kernel, workload=workload, metrics=further)
        return _about(kernel, _read(_PROFILE, answer))

    async def static_profile(self, task: TaskSource, kernel: Kernel) -> StaticProfile:
        """What the build of a CUDA kernel tells, where there is no device to run it on."""
        return _about(kernel, _read(_STATIC_PROFILE, await self.call("static_profile", task, kernel=kernel)))

    async def experiment(self, task: TaskSource, program: Program) -> Experiment:
        found = _read(_EXPERIMENT, await self.call("experiment", task, program=program))
        if found.program != program.id:
            raise InfrastructureError(
                f"an answer of the judge is about program {found.program} instead of {program.id}"
            )
        return found

    async def call(
        self, op: Operation, task: TaskSource, *, on_progress: Progress | None = None, **fields: object
    ) -> JsonValue:
        """Send one job with the `fields` that it needs and wait for its result; cancelling the call kills the job.

        When the process ends the job is sent again to a new one; a job that only waited for another may be sent again
        any number of times. Raises TaskError, KernelError and InfrastructureError.
        """
        losses = 0
        self._remember_target(op, task, fields)
        while True:
            job = Job.model_validate({"id": str(next(self._ids)), "op": op, "task": task, **fields})
            try:
                service = await self._running()
                return await service.ask(job, on_progress or self._on_progress)
            except ProcessEnded as ended:
                losses += ended.guilty
                if ended.lasting or losses >= self._attempts:
                    raise ended.error from None
            if losses:
                await asyncio.sleep(self._pause * 2 ** (losses - 1))

    def _remember_target(self, op: Operation, task: TaskSource, fields: dict[str, object]) -> None:
        """A torch kernel runs on either target: on the one that its task was opened for."""
        if op == "open" and "target" in fields:
            self._targets[task.id] = fields["target"]
        kernels = (fields.get("kernel"), *cast("tuple[object, ...]", fields.get("kernels") or ()))
        is_torch = any(isinstance(each, Kernel) and each.language == "torch" for each in kernels)
        if is_torch and task.id in self._targets:
            fields.setdefault("target", self._targets[task.id])

    async def close(self) -> None:
        """End the process and everything it started; the executor may be used again."""
        service, self._service = self._service, None
        if service is not None:
            await service.end()

    async def _running(self) -> JobProcess:
        async with self._starting:
            if self._service is not None and self._service.ended:
                await self._service.end()
                self._service = None
            if self._service is None:
                self._service = await self._start()
            return self._service


class LocalExecutor(ProcessExecutor):
    """Judges on this machine. The process dies with this one."""

    def __init__(self, on_progress: Progress | None = None) -> None:
        """`on_progress` is told of each stage that begins ("build", "correct", ...)."""
        super().__init__(ServiceProcess.start, on_progress, attempts=2, pause=0.0)


class CommandExecutor(ProcessExecutor):
    """Judges wherever a command runs `warpsmith worker`."""

    def __init__(
        self,
        argv: Sequence[str],
        on_progress: Progress | None = None,
        *,
        silence: float = SILENCE_SECONDS,
        patience: float = GREETING_SECONDS,
        withheld: Collection[str] = (),
    ) -> None:
        """`argv` is run without a shell. A worker that has jobs and shows no sign of life for `silence` seconds, or
        does not answer the greeting within `patience` seconds, is lost. The command never sees the environment
        variables `withheld`."""
        start = functools.partial(WorkerProcess.start, tuple(argv), silence, patience, tuple(withheld))
        super().__init__(start, on_progress, attempts=3, pause=1.0)


def executor_for(spec: str, on_progress: Progress | None = None, withheld: Collection[str] = ()) -> ProcessExecutor:
    """The executor that `local` or `command:ssh gpu1 warpsmith worker` names. Raises WarpsmithError.

    withheld: environment variables that a command must not see, beside the usual ones that hold a model's key.
    """
    if spec == LOCAL:
        return LocalExecutor(on_progress)
    advice = f"Give `{LOCAL}`, or `{COMMAND}` and a command that runs `warpsmith worker`."
    if not spec.startswith(COMMAND):
        raise WarpsmithError(f"there is no executor {spec}", advice)
    try:
        argv = shlex.split(spec.removeprefix(COMMAND))
    except ValueError as error:
        raise WarpsmithError(f"the executor's command can't be read: {error}", advice) from error
    if not argv:
        raise WarpsmithError("the executor has no command", advice)
    return CommandExecutor(argv, on_progress, withheld=withheld)


def _read(adapter: TypeAdapter[_Answer], answer: JsonValue) -> _Answer:
    try:
        return adapter.validate_python(answer)
    except ValidationError as error:
        first = error.errors()[0]
        how = f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"
        message = f"an answer of the judge can't be understood ({how})"
        raise InfrastructureError(message, "Put the same warpsmith on both machines.") from error


_OfKernel = TypeVar("_OfKernel", BuildReport, Verdict, QuickResult, Profile, StaticProfile)


def _about(kernel: Kernel, record: _OfKernel) -> _OfKernel:
    """`record`, when it is about `kernel`."""
    if record.kernel != kernel.id:
        raise InfrastructureError(f"an answer of the judge is about kernel {record.kernel} instead of {kernel.id}")
    return record
