"""`warpsmith worker`: reads jobs as JSON lines on stdin and answers each with one JSON line on stdout, in any order.

A session that begins with a greeting is live: somebody waits, and the end of stdin (the driver closed it, died, or lost
the connection) ends the worker and everything it started, whatever it is doing. Without a greeting it is a batch: the
end of stdin is the end of the list, and every job of it is done. `docs/worker.md` is the manual.

Started as `warpsmith worker`, or as `python -P -m tools.jobs` where only `tools` and what it imports is installed.
Not covered: judging, which a process of its own does (`tools.service`); nothing of a task or kernel is run in this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import IO, Any

from pydantic import JsonValue

from tools.errors import WarpsmithError
from tools.executor import LocalExecutor
from tools.protocol import (
    FEATURES,
    HEARTBEAT_SECONDS,
    VERSION,
    Job,
    ProtocolFault,
    answered,
    encoded,
    failed,
    failure,
    read_job,
    read_message,
)

DONE, SOME_FAILED, BROKEN = 0, 1, 2
IN_FLIGHT = 64
"""Jobs of a batch that are read ahead."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FLUSH_SECONDS = 10.0


class Outlet:
    """Writes lines from a thread of its own, so that a reader who does not read never keeps the worker from ending."""

    def __init__(self, stream: IO[bytes], on_broken: Callable[[OSError], object]) -> None:
        self._stream, self._on_broken = stream, on_broken
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def say(self, message: dict[str, JsonValue]) -> None:
        self._lines.put(encoded(message))

    def finish(self, timeout: float) -> None:
        """Return when all is written, or after `timeout` seconds."""
        self._lines.put(None)
        self._thread.join(timeout)

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                self._stream.write(line)
                self._stream.flush()
        except OSError as error:
            self._on_broken(error)


class Worker:
    """The jobs in flight. `progress` gets stages and signs of life, `answers` one line for each job."""

    def __init__(
        self, answers: Outlet, progress: Outlet, room: threading.Semaphore, on_fault: Callable[[int], None]
    ) -> None:
        """`room` is released for each line that is done with; `on_fault` is told the exit code of a fault of ours."""
        self._answers, self._progress, self._room, self._on_fault = answers, progress, room, on_fault
        self._executor = LocalExecutor()
        self._jobs: dict[str, asyncio.Task[dict[str, JsonValue]]] = {}
        self._beat: asyncio.Task[None] | None = None
        self._lines = 0
        self._begun = False
        self._failures = False
        self._ending = False

    @property
    def live(self) -> bool:
        """Whether a driver has greeted."""
        return self._beat is not None

    async def serve(self, lines: asyncio.Queue[bytes | None]) -> int:
        """Do what the lines say until they end; the exit code."""
        while (line := await lines.get()) is not None:
            self._take(line)
        if not self.live:
            while self._jobs:
                await asyncio.wait(self._jobs.values())
        return SOME_FAILED if self._failures and not self.live else DONE

    async def end(self) -> None:
        """End all that is in flight and everything that was started for it."""
        self._ending = True
        tasks = [*self._jobs.values(), *([self._beat] if self._beat else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._executor.close()

    def _take(self, line: bytes) -> None:
        self._lines += 1
        if not line.strip():
            self._room.release()
            return
        is_first, self._begun = not self._begun, True
        job: str | None = None
        try:
            message = read_message(line)
            job = message["id"] if isinstance(message.get("id"), str) else None
            if message.get("op") == "hello":
                self._greet(message, may_open=is_first or self.live)
            elif message.get("op") == "cancel":
                self._cancel(message)
            else:
                self._begin(read_job(message))
                return
        except ProtocolFault as fault:
            where = "" if job is not None else f"line {self._lines}: "
            self._answer(failed(job, "infrastructure", where + fault.how, fault="protocol"))
        self._room.release()

    def _greet(self, message: dict[str, Any], *, may_open: bool) -> None:
        """Say who is here; from now on the end of stdin is the end of everything. Amid a batch (not `may_open`) that
        can't be asked for: all its jobs are to be done."""
        if message.get("v") != VERSION:
            raise ProtocolFault(f"the driver speaks protocol version {message.get('v')!r}, this worker {VERSION}")
        if not may_open:
            raise ProtocolFault("a greeting is a session's first line, and this is a batch")
        wanted = message.get("heartbeat")
        seconds = float(wanted) if isinstance(wanted, int | float) and wanted > 0 else HEARTBEAT_SECONDS
        if self._beat is None:
            self._beat = asyncio.create_task(self._show_life(min(seconds, HEARTBEAT_SECONDS)))
        here: JsonValue = {
            "versions": [VERSION],
            "features": list(FEATURES),
            "host": socket.gethostname(),
            "process": os.getpid(),
        }
        self._answer(answered(message.get("id"), here))

    def _cancel(self, message: dict[str, Any]) -> None:
        task = self._jobs.get(str(message.get("id")))
        if task is not None:  # else its answer is already on its way
            task.cancel()

    def _begin(self, job: Job) -> None:
        if job.id in self._jobs:
            raise ProtocolFault(f"there is a job {job.id} in flight already")
        task = asyncio.create_task(self._do(job))
        self._jobs[job.id] = task
        task.add_done_callback(functools.partial(self._finish, job.id))

    async def _do(self, job: Job) -> dict[str, JsonValue]:
        """The answer."""

        def progress(stage: str) -> None:
            self._progress.say({"v": VERSION, "id": job.id, "stage": stage})

        given = {name: getattr(job, name) for name in job.model_fields_set - {"v", "id", "op", "task"}}
        try:
            result = await self._executor.call(job.op, job.task, on_progress=progress, **given)
        except WarpsmithError as error:
            return failure(job.id, error)
        return answered(job.id, result)

    def _finish(self, job: str, task: asyncio.Task[dict[str, JsonValue]]) -> None:
        """Answer, here and not in `_do`: of a task that is cancelled before its first step not one line is run."""
        del self._jobs[job]
        self._room.release()
        if task.cancelled():
            if not self._ending:  # else nobody took it back, so it has no answer
                self._answer(failed(job, "cancelled", "the job was taken back"))
        elif (fault := task.exception()) is not None:  # a worker that met a fault of its own is not trusted to go on
            traceback.print_exception(fault)
            self._on_fault(BROKEN)
        else:
            self._answer(task.result())

    def _answer(self, message: dict[str, JsonValue]) -> None:
        self._failures = self._failures or message["ok"] is False
        self._answers.say(message)

    async def _show_life(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            if self._jobs:
                self._progress.say({"v": VERSION, "id": None, "stage": "alive", "jobs": len(self._jobs)})


async def work(lines: IO[bytes], answers: IO[bytes], progress: IO[bytes]) -> int:
    """Serve one session or one batch; the exit code. Nothing that was started is left."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()
    inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
    room = threading.Semaphore(IN_FLIGHT)

    def stop(code: int) -> None:
        if not stopped.done():
            stopped.set_result(code)

    def broken(error: OSError) -> None:
        progress_outlet.say({"v": VERSION, "id": None, "stage": f"an output is broken: {error.strerror}"})
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(stop, BROKEN)

    def read() -> None:
        with contextlib.suppress(RuntimeError):
            for line in lines:
                if not worker.live:  # a driver's lines must be seen: one of them may take a job back
                    room.acquire()
                loop.call_soon_threadsafe(inbox.put_nowait, line)
            loop.call_soon_threadsafe(inbox.put_nowait, None)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop, 128 + number)
    progress_outlet = Outlet(progress, broken)
    answer_outlet = Outlet(answers, broken)
    worker = Worker(answer_outlet, progress_outlet, room, stop)
    threading.Thread(target=read, daemon=True).start()
    served = asyncio.create_task(worker.serve(inbox))
    await asyncio.wait({served, stopped}, return_when=asyncio.FIRST_COMPLETED)
    patience = 0.5 if stopped.done() or worker.live else FLUSH_SECONDS
    served.cancel()
    await worker.end()
    for outlet in (answer_outlet, progress_outlet):
        await asyncio.to_thread(outlet.finish, patience)
    return stopped.result() if stopped.done() else served.result()


def main() -> None:
    """Serve standard input and output; ends the process."""
    code = asyncio.run(work(sys.stdin.buffer, sys.stdout.buffer, sys.stderr.buffer))
    os._exit(code)  # the threads may be in a read or a write that does not return


if __name__ == "__main__":
    main()
