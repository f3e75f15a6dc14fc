"""`warpsmith steer`: one action on a run that goes on in another process."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agents.pausing import paused_in
from agents.steering_actions import Action, Command
from agents.steering_box import give
from agents.steering_limits import HEEDED_AT_A_LIMIT
from app.exits import DONE, FAILED, REJECTED, say_error
from app.plain import printable
from app.steer_words import in_words
from memory.files import Json, RunFolderError
from memory.runs import RunFolder
from memory.tail import Tail, event_in

LOOK_EVERY: Final = 0.1
"""Seconds."""
ANSWERS: Final = ("steered", "steer_refused", "answered")


def steer(run: RunFolder, action: Action, *, patience: float | None, as_json: bool) -> int:
    """Give an action to a run and say what came of it; the exit code.

    patience: seconds to wait for that; None waits as long as the run's process lives, 0 not at all. Raises
    RunFolderError when the folder is another user's or can't be written.
    """
    _refuse_unless_owned(run)
    with Tail(run.path / "events.jsonl") as tail:
        for _ in tail.lines():
            pass
        command = give(run.path, action)
        at_work = tail.is_written() is not False
        told = _answer(tail, command, patience) if at_work and patience != 0 else None
    at_limit = at_work and _waits_at_a_limit(run.path, command)
    if as_json:
        print(json.dumps(told or {"event": "given", "id": command.id, "at_work": at_work}))
    elif told is None:
        print(f"given to {run.id}; {_when(run, at_work, at_limit)}")
    else:
        _print(told)
    if told is None:
        return DONE if patience == 0 or not at_work or at_limit else FAILED
    return REJECTED if told["event"] == "steer_refused" else DONE


def _when(run: RunFolder, at_work: bool, at_limit: bool) -> str:
    """When what was given is heeded, in words."""
    if at_limit:
        raise_it = f"warpsmith steer {shlex.quote(str(run.path))} budget NAME=VALUE"
        return f"it waits at a limit, and heeds it once that is larger: {raise_it}"
    return "its process will heed it" if at_work else "no process works on it: `warpsmith resume` will heed it"


def _waits_at_a_limit(folder: Path, command: Command) -> bool:
    """Whether the run's process waits, and heeds such a command only when it waits no longer."""
    return not isinstance(command.action, HEEDED_AT_A_LIMIT) and paused_in(folder) is not None


def _print(told: Json) -> None:
    if told["event"] == "steer_refused":
        say_error(str(told["message"]), str(told["advice"]))
    elif told["event"] == "answered":
        print(printable(f"{told['answer']}\n({told['by']})"))
    else:
        about = told["about"]
        print(printable(in_words(str(told["action"]), about if isinstance(about, dict) else {})))


def _answer(
    tail: Tail,
    command: Command,
    patience: float | None,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Json | None:
    """What the run's process told of a command; None when the patience is over, and when the process is gone before or
    waits at a limit."""
    until = None if patience is None else now() + patience
    while True:
        at_limit, is_written = _waits_at_a_limit(tail.path.parent, command), tail.is_written()
        for line in tail.lines():
            told = event_in(line)
            if told is not None and told["event"] in ANSWERS and told.get("id") == command.id:
                return told
        if at_limit or is_written is False or (until is not None and now() >= until):
            return None
        sleep(LOOK_EVERY)


def _refuse_unless_owned(run: RunFolder) -> None:
    if run.path.stat().st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        raise RunFolderError(f"{run.path} belongs to another user", "Only who owns a run may steer it.")
