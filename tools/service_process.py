"""A handle on the judge's own process on this machine: what it starts with, when it hangs, and whom its end blames."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

from tools.environment import without_secrets
from tools.errors import InfrastructureError, TaskError
from tools.job_process import CLOSE_SECONDS, JobProcess, ProcessEnded, spawn
from tools.keeper import kept
from tools.process import descendants
from tools.protocol import ProtocolFault

OPENING = ("reference", "audit", "baseline")
"""Stages in which only the task's own code can end or hang the service."""
OPENING_SECONDS = 900.0
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
_PASSED_PREFIXES = ("LC_", "XDG_", "WARPSMITH_", "PYTHON", "OMP_", "OPENBLAS_", "MKL_", "CUDA_")
_BLAS_REST = {"OPENBLAS_THREAD_TIMEOUT": "20"}
"""OpenBLAS threads spin on after a call; 2^20 cycles is long enough to be fast, short enough not to reach a timing."""
_UTF8 = {"PYTHONUTF8": "1"}
"""Kernels and tasks are UTF-8 text whatever the user's locale is."""


class ServiceProcess(JobProcess):
    """`tools.service` below a keeper: it does one job at a time, and is gone with all it started when it ends, when
    this process does, or when it is told to."""

    @classmethod
    async def start(cls) -> ServiceProcess:
        """Raises InfrastructureError when it can't be started."""
        root = str(Path(__file__).resolve().parent.parent)
        harmless = without_secrets()
        passed = {k: v for k, v in harmless.items() if k in _PASSED_ON or k.startswith(_PASSED_PREFIXES)}
        path = os.pathsep.join(filter(None, (root, passed.get("PYTHONPATH"))))
        argv = kept([sys.executable, "-P", "-m", "tools.service"])
        return cls(await spawn(argv, _BLAS_REST | passed | _UTF8 | {"PYTHONPATH": path}, "the judge's process"))

    async def _take_back(self, job: str) -> None:
        """A job that runs ends only with its process; the others in flight are done by the next one."""
        if self._running == job:
            await self._kill()
        else:
            await self._send_cancel(job)

    async def _kill(self) -> None:
        """Have the keeper end what is below it and tidy up; one that does not is killed as well."""
        if self._process.returncode is None:
            self._victims += descendants(self._process.pid)
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._process.wait(), CLOSE_SECONDS)
        await super()._kill()

    async def _watch(self) -> None:
        """Kill a service whose task's own code does not return."""
        while True:
            await asyncio.sleep(1)
            late = time.monotonic() - self._stage_began > OPENING_SECONDS
            if self._running is not None and self._stage in OPENING and late:
                await self._give_up(ProtocolFault(f"it did not return within {OPENING_SECONDS:g} s"))
                return

    def _ended(self, job: str) -> ProcessEnded:
        guilty = self._running == job or self._running not in self._waiting
        how = f"({self._how()}, during {self._stage}){self._last_words()}"
        if guilty and self._stage in OPENING:
            message = f"The task's own code ended the process that judges {how}"
            return ProcessEnded(TaskError("raised", message, "Keep it from exiting, and see that it fits in memory."))
        error = InfrastructureError(f"the judge's process ended {how}", "Try again.")
        return ProcessEnded(error, guilty=guilty)
