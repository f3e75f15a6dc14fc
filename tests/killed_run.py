"""A run in a process of its own that is killed, as by `kill -9`, while it judges the kernel of the given number."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from stub_executor import TASK, StubExecutor

from agents.drive import optimize
from agents.settings import Budgets, RunSettings
from memory.runs import RunFolder
from tools.records import Kernel

SETTINGS = RunSettings(budgets=Budgets(iterations=6, near_limit=None, patience=None), parallel=2)


def main(folder: str, fatal: str, state: str = "") -> None:
    executor = StubExecutor(seconds_of)
    judged = 0

    def seconds_or_death(kernel: Kernel) -> float:
        nonlocal judged
        judged += 1
        if judged == int(fatal):
            os.kill(os.getpid(), signal.SIGKILL)
        return seconds_of(kernel)

    executor.first_seconds_of = seconds_or_death
    asyncio.run(optimize(TASK, SETTINGS, RunFolder(Path(folder)), executor, lambda _: None, state=state or None))


def seconds_of(kernel: Kernel) -> float:
    return 1.0 / (1 + int(kernel.defines.get("BLOCK", 8)))


if __name__ == "__main__":
    main(*sys.argv[1:])
