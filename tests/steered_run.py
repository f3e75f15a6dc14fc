"""A run in a process of its own that a person steers and that is killed: right after it was given a command, or right
after it told that one took effect."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from killed_run import seconds_of
from stub_executor import TASK, StubExecutor

from agents.drive import optimize
from agents.events import Event
from agents.settings import Budgets, RunSettings
from agents.steering_box import Box
from memory.runs import RunFolder

SETTINGS = RunSettings(budgets=Budgets(iterations=12, near_limit=None, patience=None))


def main(folder: str, when: str) -> None:
    run = RunFolder(Path(folder))
    if when == "given":
        Box.new = die  # type: ignore[method-assign, assignment]

    def hear(event: Event) -> None:
        if when == "told" and event.event in ("steered", "answered", "exported"):
            die()

    settings = RunSettings.model_validate(run.config().get("settings") or SETTINGS)
    asyncio.run(optimize(TASK, settings, run, StubExecutor(seconds_of), hear))


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
