"""A handle on a process that does jobs: matches answers to jobs, and ends it with everything it started.

What is said about its end, and how a job is taken back, is the business of its two kinds: the judge's own process on
this machine (`tools.service_process`) and a worker behind any command (`tools.worker_process`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from tools.errors import InfrastructureError, WarpsmithError
from tools.process import descendants, is_running
from tools.protocol import VERSION, Answer, Job, ProtocolFault, encoded, read_answer, read_sign

Progress = Callable[[str], None]
"""Is told of each stage that begins ("build", "correct", ...)."""

LINE_LIMIT = 1 << 28
"""Bytes of one answer."""
CLOSE_SECONDS = 5.0
KEPT_LINES = 80
OUTPUT_CLOSED = ("it closed its standard output and ran on", "Answers come there: try the command by hand.")


class ProcessEnded(Exception):
    """The process ended, or was given up, with the job unanswered."""

    def __init__(self, error: WarpsmithError, *, guilty: bool = True, lasting: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        """What to report when the job is not tried again."""
        self.guilty = guilty
        """Whether this job may have been the cause; a job that only waited is not."""
        self.lasting = lasting
        """Whether another try would end like this one."""


@dataclass
class _Asked:
    """A job without its answer."""

    answer: asyncio.Future[JsonValue]
    on_progress: Progress
    wanted: bool = True
    """Not taken back."""


class JobProcess(ABC):
    """One process and its unanswered jobs. Belongs to one event loop."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[str, _Asked] = {}
        self._running: str | None = None
        """The job that reported a stage last."""
        self._stage, self._stage_began = "start", time.monotonic()
        self._heard = time.monotonic()
        self._given_up: ProtocolFault | None = None
        self._input_closed: float | None = None
        self._victims: list[int] = []
        self._said: deque[str] = deque(maxlen=KEPT_LINES)
        self._tasks = [asyncio.create_task(work()) for work in (self._read_answers, self._read_signs, self._watch)]

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None or self._given_up is not None or self._tasks[0].done()

    async def ask(self, job: Job, on_progress: Progress) -> JsonValue:
        """Raises ProcessEnded beside the errors that the answer reports. Cancelling it takes the job back."""
        return await self._exchange(job.id, job.message(), on_progress)

    async def end(self) -> None:
        """Ask it to end by closing its stdin; kill it when it does not."""
        self._victims += descendants(self._process.pid)
        self._close_input()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), CLOSE_SECONDS)
        await self._kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._give_up_waiting()

    @abstractmethod
    async def _take_back(self, job: str) -> None:
        """End a job whose answer nobody wants."""

    @abstractmethod
    async def _watch(self) -> None:
        """Give up a process that hangs."""

    @abstractmethod
    def _ended(self, job: str) -> ProcessEnded:
        """What the end means for one unanswered job."""

    async def _exchange(self, job: str, message: dict[str, JsonValue], on_progress: Progress) -> JsonValue:
        if not self._waiting:
            self._heard = time.monotonic()
        answer: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._waiting[job] = asked = _Asked(answer, on_progress)
        try:
            if self._tasks[0].done():
                raise self._ended(job)
            await self._send(job, message)
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            asked.wanted = False
            await asyncio.shield(self._take_back(job))
            raise
        finally:
            self._waiting.pop(job, None)

    async def _send(self, job: str, message: dict[str, JsonValue]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encoded(message))
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            await asyncio.wait([self._tasks[0]], timeout=CLOSE_SECONDS)  # so that its last words are heard
            raise self._ended(job) from None

    async def _send_cancel(self, job: str) -> None:
        with contextlib.suppress(ProcessEnded):
            await self._send(job, {"v": VERSION, "id": job, "op": "cancel"})

    async def _give_up(self, fault: ProtocolFault) -> None:
        """Make an end of a process that can't be trusted or does not answer."""
        self._given_up = self._given_up or fault
        await self._kill()
        await asyncio.wait([self._tasks[0]], timeout=CLOSE_SECONDS)
        self._give_up_waiting()  # something that it left behind may hold the pipe open

    async def _kill(self) -> None:
        """Kill the process and all below it; returns when they are gone, whoever killed them."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGSTOP)  # so that it starts nothing more while we look
            below = descendants(self._process.pid)
            self._victims += below
            for pid in (self._process.pid, *below):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._process.wait(), CLOSE_SECONDS)
        await _gone(self._victims)

    async def _read_answers(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self._settle(read_answer(line))
        except ProtocolFault as fault:
            self._given_up = fault
        except ValueError:
            self._given_up = ProtocolFault(f"it said a line of more than {LINE_LIMIT >> 20} MiB")
        if self._given_up is None:
            await self._see_its_end()
        rest = asyncio.create_task(self._read_rest())
        await self._kill()
        await asyncio.wait([self._tasks[1], rest], timeout=1)
        rest.cancel()
        self._give_up_waiting()

    async def _see_its_end(self) -> None:
        """Its output has ended, and it should too: one that runs on is given up."""
        self._close_input()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), CLOSE_SECONDS)
        if self._process.returncode is None:
            self._given_up = self._given_up or ProtocolFault(*OUTPUT_CLOSED)

    def _close_input(self) -> float:
        """Close its stdin, which asks it to end; when that was done first, by the monotonic clock."""
        assert self._process.stdin is not None
        if self._input_closed is None:
            self._input_closed = time.monotonic()
            self._process.stdin.close()
        return self._input_closed

    async def _read_rest(self) -> None:
        """What a process that is not listened to any more still says: the end of one is not seen behind a full pipe."""
        assert self._process.stdout is not None
        while await self._process.stdout.read(1 << 20):
            pass

    def _settle(self, answer: Answer) -> None:
        self._heard = time.monotonic()
        if answer.id is None:
            raise ProtocolFault(f"it could not read a job: {answer.error.message if answer.error else 'no reason'}")
        if self._running == answer.id:
            self._running = None
        asked = self._waiting.get(answer.id)
        if asked is None or asked.answer.done():
            return
        if answer.taken_back and asked.wanted:
            raise ProtocolFault("it took back a job that is still wanted")
        if answer.error is None:
            asked.answer.set_result(answer.result)
        else:
            asked.answer.set_exception(answer.error)

    async def _read_signs(self) -> None:
        assert self._process.stderr is not None
        while True:
            try:
                line = await self._process.stderr.readline()
            except ValueError:  # too long to be ours
                continue
            if not line:
                return
            sign = read_sign(line)
            if sign is None:
                self._said.append(line.decode(errors="replace").rstrip())
                continue
            self._heard = time.monotonic()
            if sign.id is not None:
                self._running, self._stage, self._stage_began = sign.id, sign.stage, time.monotonic()
                if sign.id in self._waiting:
                    self._waiting[sign.id].on_progress(sign.stage)

    def _give_up_waiting(self) -> None:
        for job, asked in self._waiting.items():
            if not asked.answer.done():
                asked.answer.set_exception(self._ended(job))

    def _how(self) -> str:
        """How it ended."""
        if self._given_up is not None:
            return self._given_up.how
        code = self._process.returncode
        return f"exit code {code}" if code is None or code >= 0 else f"signal {-code}"

    def _last_words(self) -> str:
        said = [line for line in self._said if line.strip()]
        return f" and said: {said[-1][:300]}" if said else ""


async def spawn(argv: Sequence[str], env: Mapping[str, str] | None, name: str) -> asyncio.subprocess.Process:
    """A child in a session of its own, so that a terminal's Ctrl-C never reaches it. Raises InfrastructureError."""
    try:
        return await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True, env=env, limit=LINE_LIMIT,
        )  # fmt: skip
    except OSError as error:
        raise InfrastructureError(f"{name} can't be started: {error.strerror}", "Check the command.") from error


async def _gone(pids: Sequence[int]) -> None:
    """Wait for processes that were killed."""
    deadline = time.monotonic() + CLOSE_SECONDS
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        await asyncio.sleep(0.002)
