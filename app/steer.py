"""`warpsmith steer`: one action on a run that goes on in another process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Final

from agents.steering_actions import Action, Command
from agents.steering_box import give
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
    if as_json:
        print(json.dumps(told or {"event": "given", "id": command.id, "at_work": at_work}))
    elif told is None:
        waits = "its process will heed it" if at_work else "no process works on it: `warpsmith resume` will heed it"
        print(f"given to {run.id}; {waits}")
    else:
        _print(told)
    if told is None:
        return DONE if patience == 0 or not at_work else FAILED
    return REJECTED if told["event"] == "steer_refused" else DONE


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
    """What the run's process told of a command; None when the patience is over, or the process gone before."""
    until = None if patience is None else now() + patience
    while True:
        is_written = tail.is_written()
        for line in tail.lines():
            told = event_in(line)
            if told is not None and told["event"] in ANSWERS and told.get("id") == command.id:
                return told
        if is_written is False or (until is not None and now() >= until):
            return None
        sleep(LOOK_EVERY)


def _refuse_unless_owned(run: RunFolder) -> None:
    if run.path.stat().st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        raise RunFolderError(f"{run.path} belongs to another user", "Only who owns a run may steer it.")
