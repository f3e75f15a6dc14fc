"""What `warpsmith doctor` finds, and how it tries things."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tools.errors import InfrastructureError
from tools.process import run_command

State: TypeAlias = Literal["ok", "limited", "missing", "info"]
"""`missing` stops a run; `limited` makes it weaker; `info` is neither."""


INSTALL_TORCH: Final = f"{sys.executable} -m pip install 'torch>=2.11'"
INSTALL_NINJA: Final = f"{sys.executable} -m pip install ninja, and have its folder on the PATH"
"""How what is optional is had."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `advice` is empty when there is nothing to do."""

    name: str
    state: State
    found: str
    advice: str = ""


def run(argv: list[str], stdin: bytes = b"", seconds: float = 30.0) -> subprocess.CompletedProcess[bytes] | None:
    """A short command; None when it can't run or takes too long. Nothing that it started is left."""
    try:
        done = run_command(argv, timeout=seconds, stdin=stdin)
    except InfrastructureError:
        return None
    if done.timed_out:
        return None
    code = done.exit_code if done.exit_code is not None else -(done.signal or 0)
    return subprocess.CompletedProcess(argv, code, done.stdout.encode(), done.stderr.encode())


def output(argv: list[str], seconds: float = 30.0) -> str | None:
    """Its standard output when it succeeds."""
    done = run(argv, seconds=seconds)
    return done.stdout.decode(errors="replace").strip() if done is not None and done.returncode == 0 else None
