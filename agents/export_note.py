"""Has a run's log say that a kernel of it was exported.

The log has one writer. Where nobody works on the run, that is who exports, with the run's lock; else it is the run's
own process, which finds the word among its commands. A process that ends before it read that leaves it to who waits
here, or to whoever works on the run next; the id makes it one event all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from agents.events import Journal, bound
from agents.steering_actions import Command, Exported
from agents.steering_box import give, new_command
from memory.files import RunFolderError
from memory.lock import FolderInUse, hold
from memory.tail import Tail, event_in

LOOK_EVERY: Final = 0.1
PATIENCE: Final = 5.0
"""Seconds. A process that opens its task heeds nothing until the starting kernel is judged: that is not waited for."""


def note_export(
    folder: Path,
    task: str,
    exported: Exported,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> str | None:
    """Why the run's log will not tell of it, in words; None when it does, or when the run's process was told to.

    folder: the run's. task: its name.
    """
    path = folder / "events.jsonl"
    try:
        if not path.is_file():
            return "the run has no log"
        command, until = new_command(exported), now() + PATIENCE
        is_given = False
        with Tail(path) as tail:
            _drain(tail)
            while True:
                try:
                    with hold(folder):
                        if not _is_told(tail, command):
                            _write(path, task, command, exported)
                        return None
                except FolderInUse:
                    if not is_given:
                        give(folder, command)
                        is_given = True
                if _is_told(tail, command) or now() >= until:
                    return None
                sleep(LOOK_EVERY)
    except RunFolderError as error:
        return error.message
    except OSError as error:
        return f"{path} can't be read: {error.strerror}"
    except ValidationError:
        return "its folder's name is none that a log can hold"


def _write(path: Path, task: str, command: Command, exported: Exported) -> None:
    with bound(run=path.parent.name, task=task), Journal(path, lambda _: None, is_work=False) as journal:
        journal.tell("exported", id=command.id, **exported.model_dump(mode="json", exclude={"action"}))
        journal.flush()


def _drain(tail: Tail) -> None:
    for _ in tail.lines():
        pass


def _is_told(tail: Tail, command: Command) -> bool:
    """Whether a line that came since tells of it."""
    return any(told is not None and told.get("id") == command.id for told in map(event_in, tail.lines()))
