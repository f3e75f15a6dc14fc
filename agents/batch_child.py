"""A task's process as the batch's process sees it: start it, talk with it, and end it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from agents.batch_lines import LINE_LIMIT, ORDER, REPORT, Order, Report
from memory.files import write_failure
from tools.process import descendants

LEAVING_SECONDS = 30.0
"""How long a process may take to tidy up before it is killed."""
_TAIL = 2_000
"""Bytes of its log that are looked at for its last words."""


class Child:
    """One process. `asks` are the answers it still waits for, by the call's number."""

    def __init__(self, key: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.key = key
        self.asks: dict[int, asyncio.Task[None]] = {}
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, key: str, command: Sequence[str], environ: Mapping[str, str], log: Path) -> Child:
        """Raises OSError when it can't be started, and RunFolderError when its log can't be written."""
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            errors = log.open("ab")
        except OSError as error:
            raise write_failure(log, error) from error
        with errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=dict(environ),
                limit=LINE_LIMIT,
                start_new_session=True,
            )
        return cls(key, process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, order: Order) -> None:
        """Never fails: a process that is gone is noticed where its reports are read."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(ORDER.dump_json(order) + b"\n")

    async def report(self) -> Report | None:
        """The next one; None when the process is gone, or says what is none."""
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
            return REPORT.validate_json(line) if line.endswith(b"\n") else None
        except (ValidationError, ValueError):
            return None

    async def leave(self) -> None:
        """Have it end in order; one that does not is killed. What it started is gone afterwards as well."""
        for asked in self.asks.values():
            asked.cancel()
        self.asks.clear()
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), LEAVING_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """At once, with all below it."""
        if self._process.returncode is None:
            below = descendants(self._process.pid)
            for pid in (self._process.pid, *below):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await self._process.wait()

    async def how_it_ended(self) -> str:
        """Of a process whose reports ended, in words."""
        await self.leave()
        code = self._process.returncode or 0
        if code < 0:
            name = signal.Signals(-code).name
            why = ", perhaps since memory ran out" if code == -signal.SIGKILL else ""
            how = f"was ended by {name}{why}"
        else:
            how = f"ended with exit code {code}"
        last = self._last_words() if code > 0 else ""
        return f"the task's process {how}{last}"

    def _last_words(self) -> str:
        with contextlib.suppress(OSError), self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - _TAIL))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
            return f": {lines[-1].strip()[:300]}" if lines else ""
        return ""
