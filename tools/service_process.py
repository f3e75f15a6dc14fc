"""A handle on the judge's process: starts it, matches answers to requests, and ends it with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import JsonValue

from tools.errors import InfrastructureError, KernelError, TaskError
from tools.process import descendants, is_running

Progress: TypeAlias = Callable[[str], None]

LINE_LIMIT = 1 << 28
"""Bytes of one answer."""
OPENING = ("reference", "audit", "baseline")
"""Stages in which only the task's own code can end or hang the service."""
OPENING_SECONDS = 900.0
CLOSE_SECONDS = 5.0
KEPT_LINES = 80
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
_PASSED_PREFIXES = ("LC_", "XDG_", "WARPSMITH_", "PYTHON", "OMP_", "OPENBLAS_", "MKL_", "CUDA_")
_BLAS_REST = {"OPENBLAS_THREAD_TIMEOUT": "20"}
"""OpenBLAS threads spin on after a call; 2^20 cycles is long enough to be fast, short enough not to reach a timing."""
_UTF8 = {"PYTHONUTF8": "1"}
"""Kernels and tasks are UTF-8 text whatever the user's locale is."""


class ServiceEnded(Exception):
    """The service died with requests unanswered."""

    def __init__(self, how: str, stage: str, last_words: str) -> None:
        super().__init__(how)
        self.how = how
        self.stage = stage
        self.last_words = last_words

    def as_error(self) -> TaskError | InfrastructureError:
        said = f" and said: {self.last_words}" if self.last_words else ""
        if self.stage in OPENING:
            message = f"The task's own code ended the process that judges ({self.how}, during {self.stage}){said}"
            return TaskError("raised", message, "Keep it from exiting, and see that it fits in memory.")
        return InfrastructureError(f"the judge's process ended ({self.how}, during {self.stage}){said}", "Try again.")


class ServiceProcess:
    """One service process and its unanswered requests."""

    def __init__(self, process: asyncio.subprocess.Process, on_progress: Progress) -> None:
        self._process = process
        self._on_progress = on_progress
        self._waiting: dict[str, asyncio.Future[JsonValue]] = {}
        self._running: str | None = None
        self._stage, self._stage_began = "start", time.monotonic()
        self._hung = False
        self._said: deque[str] = deque(maxlen=KEPT_LINES)
        self._tasks = [asyncio.create_task(work()) for work in (self._read_answers, self._read_progress, self._watch)]

    @classmethod
    async def start(cls, on_progress: Progress) -> ServiceProcess:
        """Start the process in a session of its own."""
        root = str(Path(__file__).resolve().parent.parent)
        passed = {k: v for k, v in os.environ.items() if k in _PASSED_ON or k.startswith(_PASSED_PREFIXES)}
        path = os.pathsep.join(filter(None, (root, passed.get("PYTHONPATH"))))
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "tools.service",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                start_new_session=True, env=_BLAS_REST | passed | _UTF8 | {"PYTHONPATH": path}, limit=LINE_LIMIT,
            )  # fmt: skip
        except OSError as error:
            raise InfrastructureError(f"the judge's process can't be started: {error.strerror}") from error
        return cls(process, on_progress)

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None or self._tasks[0].done()

    async def ask(self, request: dict[str, Any]) -> JsonValue:
        """Raises ServiceEnded beside the errors that the service reports."""
        job = request["id"]
        future: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self._waiting[job] = future
        try:
            await self._send(request)
            return await future
        except asyncio.CancelledError:
            if self._running == job:
                await asyncio.shield(self._kill())
            else:
                with contextlib.suppress(ServiceEnded):
                    await self._send({"v": 1, "id": job, "op": "cancel"})
            raise
        finally:
            self._waiting.pop(job, None)

    async def end(self) -> None:
        """Ask it to end by closing its stdin; kill it when it does not."""
        assert self._process.stdin is not None
        started = descendants(self._process.pid)
        self._process.stdin.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), CLOSE_SECONDS)
        await self._kill()
        await _gone(started)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended() from None

    async def _kill(self) -> None:
        """Kill the process and all below it; returns when they are gone."""
        victims = []
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGSTOP)  # so that it starts nothing more while we look
            victims = descendants(self._process.pid)
            for pid in (self._process.pid, *victims):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        await self._process.wait()
        await _gone(victims)

    async def _read_answers(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = json.loads(line)
            future = self._waiting.get(answer["id"])
            if self._running == answer["id"]:
                self._running = None
            if future is None or future.done():
                continue
            if answer["ok"]:
                future.set_result(answer["result"])
            else:
                future.set_exception(_error(answer["error"]))
        await self._process.wait()
        await asyncio.wait([self._tasks[1]], timeout=1)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._ended())

    async def _read_progress(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            stage = _progress(text)
            if stage is None:
                self._said.append(text)
                continue
            self._running, self._stage = stage
            self._stage_began = time.monotonic()
            if self._running in self._waiting:
                self._on_progress(self._stage)

    async def _watch(self) -> None:
        """Kill a service whose task's own code does not return."""
        while True:
            await asyncio.sleep(1)
            late = time.monotonic() - self._stage_began > OPENING_SECONDS
            if self._running is not None and self._stage in OPENING and late:
                self._hung = True
                await self._kill()
                return

    def _ended(self) -> ServiceEnded:
        code = self._process.returncode
        how = f"exit code {code}" if code is None or code >= 0 else f"signal {-code}"
        if self._hung:
            how = f"it did not return within {OPENING_SECONDS:g} s"
        said = [line for line in self._said if line.strip()]
        return ServiceEnded(how, self._stage, said[-1][:300] if said else "")


async def _gone(pids: Sequence[int]) -> None:
    """Wait for processes that were killed."""
    deadline = time.monotonic() + CLOSE_SECONDS
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        await asyncio.sleep(0.002)


def _progress(line: str) -> tuple[str, str] | None:
    """(request, stage) of a progress line; None for anything else."""
    if not line.startswith('{"v": 1, "id": "'):
        return None
    try:
        report = json.loads(line)
        return str(report["id"]), str(report["stage"])
    except (ValueError, KeyError):
        return None


def _error(error: dict[str, Any]) -> Exception:
    if error["kind"] == "task":
        return TaskError(error["fault"], error["message"], error["advice"])
    if error["kind"] == "kernel":
        return KernelError(error["message"], error["advice"])
    return InfrastructureError(error["message"], error["advice"])
