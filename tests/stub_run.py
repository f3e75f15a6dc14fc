"""`warpsmith` with a judge that measures nothing and waits where a test wants it to: for signals and limits.

`main(FOLDER, HUP, WORD...)` does what `warpsmith WORD...` does. Before the judge answers for its kernel of number n it
leaves FOLDER/judging-n, and where FOLDER/hold-n stands it waits until that is gone. FOLDER/pid says which process it
is. HUP: `ignore` for a process that nohup started.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from pathlib import Path

import killed_run
from stub_executor import StubExecutor

from agents.models.builtin import Autotune
from app import cli, optimize, resume
from memory.tokens import COUNTER
from tools.records import Kernel, Verdict
from tools.task import TaskSource

REFERENCE = """
import numpy as np

def inputs(rng):
    return {"x": rng.standard_normal(1024).astype(np.float32)}

def reference(x):
    return {"y": x * 2.0}
"""


class Held(StubExecutor):
    def __init__(self, folder: Path) -> None:
        super().__init__(killed_run.seconds_of)
        self._folder = folder

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        number = len(self.judged)
        (self._folder / f"judging-{number}").touch()
        while (self._folder / f"hold-{number}").exists():
            await asyncio.sleep(0.01)
        return await super().evaluate(task, kernel, incumbent, final=final)


def warm() -> None:
    """Load what a run loads."""
    for name in ("optuna", "agents.drive", "app.report"):
        importlib.import_module(name)
    COUNTER.count("warm")
    assert Autotune.name


def main(folder: str, hup: str, *words: str) -> None:
    place = Path(folder)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if hup == "ignore" else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for module in (optimize, resume):
        module.judged_at = lambda _, __: Held(place)  # type: ignore[assignment]
    (place / "pid.new").write_text(str(os.getpid()))
    (place / "pid.new").rename(place / "pid")
    sys.argv = ["warpsmith", *words]
    code = 0
    try:
        cli.run()
    except SystemExit as end:
        code = int(end.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
