"""A handle on a worker behind any command: ssh, srun, kubectl exec, docker run, or a shell on this machine.

Nothing that happens to the connection says anything about a task or a kernel. The worker ends when its stdin does, and
with it everything it started; so killing the command on this side is enough, wherever the other side is.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import Collection, Sequence

from pydantic import JsonValue

from tools.environment import without_model_keys
from tools.errors import InfrastructureError
from tools.job_process import JobProcess, ProcessEnded, Progress, spawn
from tools.protocol import SILENCE_SECONDS, VERSION, Job, ProtocolFault

GREETING_SECONDS = 300.0
"""How long a command may take to reach its worker: a queue or an image to be pulled included."""
CANCEL_SECONDS = 15.0
"""How long a worker may take to say that it has ended a job."""
END_SECONDS = 5.0
"""How long a command may take to end by itself once its stdin is closed."""
HELLO = "hello"


class WorkerProcess(JobProcess):
    """`warpsmith worker` at the other end of a command."""

    def __init__(self, process: asyncio.subprocess.Process, command: str, silence: float) -> None:
        self._command = command
        self._silence = silence
        self._greeted = False
        self._features: frozenset[str] = frozenset()
        super().__init__(process)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        silence: float = SILENCE_SECONDS,
        patience: float = GREETING_SECONDS,
        withheld: Collection[str] = (),
    ) -> WorkerProcess:
        """Start the command and greet the worker. Raises InfrastructureError and ProcessEnded.

        `silence` and `patience` are seconds without a sign of life: after the greeting, and until it is answered. The
        command gets our environment without the keys of model providers and the variables `withheld`.
        """
        command = shlex.join(argv)
        worker = cls(await spawn(argv, without_model_keys(withheld), f"`{command}`"), command, silence)
        hello: dict[str, JsonValue] = {"v": VERSION, "id": HELLO, "op": HELLO, "heartbeat": silence / 6}
        try:
            here = await asyncio.wait_for(worker._exchange(HELLO, hello, lambda _: None), patience)
        except TimeoutError:
            await asyncio.shield(worker.end())
            raise worker._error(
                f"did not answer a greeting within {patience:g} s", "Try the command by hand."
            ) from None
        except BaseException:
            await asyncio.shield(worker.end())
            raise
        worker._greeted = True
        told = here.get("features") if isinstance(here, dict) else None
        worker._features = frozenset(map(str, told)) if isinstance(told, list) else frozenset()
        return worker

    async def ask(self, job: Job, on_progress: Progress) -> JsonValue:
        """See `JobProcess`. InfrastructureError for what this worker does not know yet."""
        if lacking := sorted(job.features - self._features):
            raise self._error(f"is older and knows no {lacking[0]}", "Put the same warpsmith on both machines.")
        return await super().ask(job, on_progress)

    async def _take_back(self, job: str) -> None:
        """Have the worker end the job and say so; one that does not is given up with all its jobs."""
        if job == HELLO or self.ended:
            return
        await self._send_cancel(job)
        asked = self._waiting.get(job)
        if asked is not None:
            await asyncio.wait([asked.answer], timeout=CANCEL_SECONDS)
            if not asked.answer.done():
                await self._give_up(ProtocolFault(f"it did not end a job within {CANCEL_SECONDS:g} s"))

    async def _watch(self) -> None:
        """Give up a worker that has jobs and shows no sign of life."""
        while True:
            await asyncio.sleep(min(1.0, self._silence / 10))
            if self._greeted and self._waiting and time.monotonic() - self._heard > self._silence:
                await self._give_up(ProtocolFault(f"it was silent for {self._silence:g} s"))
                return

    async def _kill(self) -> None:
        """Let it see the end of its stdin first: what a command started elsewhere can't be killed from here."""
        if self._process.returncode is None:
            left = self._close_input() + END_SECONDS - time.monotonic()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._process.wait(), max(left, 0.0))
        await super()._kill()

    def _ended(self, job: str) -> ProcessEnded:
        fault = self._given_up
        doing = f" during {self._stage}" if self._running == job else ""
        advice = fault.advice if fault else "Try again, and try the command by hand."
        error = self._error(f"was lost{doing} ({self._how()}){self._last_words()}", advice)
        return ProcessEnded(error, lasting=fault is not None and (fault.lasting or not self._greeted))

    def _error(self, what: str, advice: str) -> InfrastructureError:
        return InfrastructureError(f"the worker behind `{self._command}` {what}", advice)
