"""`warpsmith steer`: one action on a run that goes on in another process."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from agents.pausing import paused_in
from agents.steering import NOT_YET
from agents.steering_actions import Action, Command
from agents.steering_box import give
from agents.steering_limits import HEEDED_AT_A_LIMIT
from app.doing import Doing
from app.exits import DONE, FAILED, REJECTED, say_error
from app.plain import printable
from app.quantities import span
from app.steer_words import in_words
from memory.files import Json, RunFolderError
from memory.runs import RunFolder
from memory.tail import Tail, event_in

LOOK_EVERY: Final = 0.1
"""Seconds."""
WAIT: Final = 600.0
"""Seconds in which a run that is at work should have heeded what was given: also a kernel that is to be judged."""
SILENT: Final = 2.0
"""Seconds without an answer until it is said what is waited for."""
ANSWERS: Final = ("steered", "steer_refused", "answered")
WAITS_FOR: Final[Mapping[str, str]] = {
    "edit": "for your kernel to be judged",
    "ask": "for the question to be answered",
}
"""By action; else for the run to heed it."""

Later: TypeAlias = Literal["resume", "limit", "run"]
"""Who will heed what was not answered: the process that resumes the run; its own once it goes on after the limit at
which it waits; its own."""


class Heard(NamedTuple):
    """The event that answers a command; else who will heed it."""

    told: Json | None
    later: Later


def steer(run: RunFolder, action: Action, *, patience: float | None, as_json: bool) -> int:
    """Give an action to a run and say what came of it; the exit code.

    patience: seconds to wait for that; None is `WAIT`, 0 not at all. Raises RunFolderError when the folder is another
    user's or can't be written.
    """
    _refuse_unless_owned(run)
    wait = WAIT if patience is None else patience
    with Tail(run.path / "events.jsonl") as tail:
        log = _Log(run, tail)
        log.answer_to(None)
        command = give(run.path, action)
        told, later = _wait_for(log, command, wait)
        if as_json:
            print(
                json.dumps(told or {"event": "given", "id": command.id, "at_work": log.is_written, "heeded_by": later})
            )
        elif told is None:
            print(printable(f"given to {run.id}; {_when(run, log, later, wait)}"))
        else:
            _print(told)
    if told is None:
        return FAILED if later == "run" and wait else DONE
    return REJECTED if told["event"] == "steer_refused" else DONE


class _Log:
    """A run's log: what its process does now, and how it answers."""

    def __init__(self, run: RunFolder, tail: Tail) -> None:
        settings = run.config().get("settings")
        self._pauses = isinstance(settings, dict) and settings.get("pause_at_limit") is True
        """Whether it answers from a limit what is given while it ends."""
        self._tail = tail
        self._doing = Doing()
        self.is_ending = False
        """Whether the search is over, and the winner is measured at most."""

    @property
    def doing(self) -> str:
        return self._doing.text

    @property
    def is_written(self) -> bool:
        """Whether a process works on the run, as far as can be seen."""
        return self._tail.is_written() is not False

    def answer_to(self, command: Command | None) -> Json | None:
        """What the lines that came say of the command, if they do."""
        for line in self._tail.lines():
            event = event_in(line)
            if event is None:
                continue
            kind = str(event["event"])
            self.is_ending = _ENDS.get(kind, self.is_ending)
            self._doing.take(kind, event)
            if command is not None and kind in ANSWERS and event.get("id") == command.id:
                return event
        return None

    def later(self, command: Command) -> Later:
        """Who will heed it if nobody does at once."""
        if not self.is_written:
            return "resume"
        is_about_limits = isinstance(command.action, HEEDED_AT_A_LIMIT)
        if not is_about_limits and paused_in(self._tail.path.parent) is not None:
            return "limit"
        if is_about_limits and self._pauses:
            return "run"
        return "resume" if self.is_ending and isinstance(command.action, NOT_YET["end"]) else "run"


_ENDS: Final = {
    "run_started": False,
    "run_resumed": False,
    "stopping": True,
    "run_ended": True,
    "run_failed": True,
    "run_paused": False,
}


def _wait_for(
    log: _Log,
    command: Command,
    patience: float,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Heard:
    """What came of a command within so many seconds, or who will heed it, as soon as that is not the process at
    work. Says on standard error what is waited for, and until when."""
    began, say_at = now(), SILENT
    while True:
        later = log.later(command)  # before the last look, so that no answer is missed
        told = log.answer_to(command)
        waited = now() - began
        if told is not None or later != "run" or waited >= patience:
            return Heard(told, later)
        if waited >= say_at:
            say_at = 2 * waited + 10 * SILENT
            print(_waiting(log, command, patience - waited), file=sys.stderr, flush=True)
        sleep(LOOK_EVERY)


def _waiting(log: _Log, command: Command, left: float) -> str:
    what = WAITS_FOR.get(command.action.action, "for the run to heed it")
    doing = f" The run now: {log.doing}." if log.doing else ""
    return printable(f"waiting {what}, {span(left)} at most; Ctrl-C leaves it given.{doing}")


def _when(run: RunFolder, log: _Log, later: Later, waited: float) -> str:
    """When what was given is heeded, in words."""
    if later == "limit":
        raise_it = f"warpsmith steer {shlex.quote(str(run.path))} budget NAME=VALUE"
        return f"it waits at a limit, and heeds it once that is larger: {raise_it}"
    if later == "resume":
        why = "it is ending" if log.is_written else "no process works on it"
        return f"{why}: `warpsmith resume` will heed it"
    doing = f" ({log.doing})" if log.doing else ""
    silent = f"nothing was heard of it in {span(waited)}, but " if waited else ""
    return f"{silent}its process{doing} will heed it, or `warpsmith resume` where that ends before"


def _print(told: Json) -> None:
    if told["event"] == "steer_refused":
        say_error(str(told["message"]), str(told["advice"]))
    elif told["event"] == "answered":
        print(printable(f"{told['answer']}\n({told['by']})"))
    else:
        about = told["about"]
        print(printable(in_words(str(told["action"]), about if isinstance(about, dict) else {})))


def _refuse_unless_owned(run: RunFolder) -> None:
    if run.path.stat().st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        raise RunFolderError(f"{run.path} belongs to another user", "Only who owns a run may steer it.")
