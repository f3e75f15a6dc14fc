"""Gives a run to a process in the background, which goes on with it when this one and its terminal are gone."""

from __future__ import annotations

import subprocess
import sys

from memory.runs import RunFolder

OUTPUT = "background.log"
"""In the run folder: what the background process says."""


def hand_over(run: RunFolder) -> int:
    """Start `warpsmith resume` on a run that no process holds any more; the process's id."""
    with (run.path / OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "app.start", "resume", str(run.path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return process.pid
