"""A run or a batch that waits at its limit for a person, and the other process that lets it go on.

While one waits it holds its folder's lock, and there are two files in the folder:

    paused.json   who waits, why, and since when
    lift.json     left by another process: what is asked for otherwise now; the one that waits takes it away

A run heeds limits that are given as to any other run too (`agents.steering_limits`).

Nothing is lost when the one that waits is killed: it had ended in order before, and goes on as any other that ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.limits import StopReason
from memory.files import Json, RunFolderError, as_json, write_atomically
from memory.lock import hold

PAUSED_NAME, LIFT_NAME = "paused.json", "lift.json"
LOOK_EVERY: Final = 0.2
"""Seconds between two looks at the folder."""
_ANSWER_EVERY: Final = 0.1
"""Seconds between two looks of the process that asks."""


class Paused(BaseModel):
    """`paused.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: StopReason
    since: float
    """Unix time."""
    pid: int


@contextmanager
def waiting(folder: Path, reason: StopReason) -> Iterator[None]:
    """Says that this process, which holds the folder's lock, waits there. Raises RunFolderError."""
    forget(folder)
    paused = Paused(reason=reason, since=time.time(), pid=os.getpid())
    write_atomically(folder / PAUSED_NAME, paused.model_dump_json() + "\n")
    try:
        yield
    finally:
        forget(folder)


async def lifted(
    folder: Path, given_up: Callable[[], object], look: Callable[[], Json | None] = lambda: None
) -> Json | None:
    """What another process asks for, once one does; None when `given_up` or the folder is gone.

    look: what was asked for in another way than by `lift`, in the same form.
    """
    while not given_up() and (folder / PAUSED_NAME).exists():
        if (given := look()) is not None:
            return given
        with suppress(OSError, ValueError):
            text = (folder / LIFT_NAME).read_text(encoding="utf-8")
            (folder / LIFT_NAME).unlink()
            asked = json.loads(text)
            if isinstance(asked, dict):
                return asked
        await asyncio.sleep(LOOK_EVERY)
    return None


def paused_in(folder: Path) -> Paused | None:
    """Who waits there; also one that was killed while it did, until the folder is worked on again."""
    try:
        return Paused.model_validate_json((folder / PAUSED_NAME).read_bytes())
    except (OSError, ValidationError):
        return None


def lift(folder: Path, asked: Json) -> bool:
    """Ask the process that waits there to go on with `asked`. True once it took that; False when it is gone, and then
    the folder is as it was. Raises RunFolderError."""
    write_atomically(folder / LIFT_NAME, as_json(asked))
    while (folder / LIFT_NAME).exists():
        if not is_held(folder):
            (folder / LIFT_NAME).unlink(missing_ok=True)
            return False
        time.sleep(_ANSWER_EVERY)
    return True


def forget(folder: Path) -> None:
    """Nobody waits there any more."""
    for name in (PAUSED_NAME, LIFT_NAME):
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def is_held(folder: Path) -> bool:
    """Whether a process works or waits there."""
    try:
        with hold(folder):
            return False
    except RunFolderError:
        return True
