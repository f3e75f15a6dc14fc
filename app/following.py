"""A run's log as it is asked for: which lines, and for how long one waits for more of them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

from agents.event_schema import RECORDS
from agents.settings import ROLES
from app.exits import say_error
from app.inputs import seconds_of
from app.log_lines import Wanted, log_line
from memory.files import Json
from memory.runs import RunFolder
from memory.tail import Tail, event_in
from tools.errors import WarpsmithError

LOOK_EVERY: Final = 0.2
"""Seconds between two looks at a file that did not grow."""
RESUMED_WITHIN: Final = 10.0
"""Seconds in which a run whose process is gone may be resumed before one no longer waits for it."""
ENDS: Final = ("run_ended", "run_paused", "run_failed")
AFTER_ENDS: Final = ("exported",)
"""What may be told of a run that nobody works on: it says nothing of how the run stands."""

How: TypeAlias = Literal["ended", "died"]
OnLine: TypeAlias = Callable[[Json], None]


def wanted_of(kinds: Sequence[str], roles: Sequence[str], since: str | None) -> Wanted:
    """What was asked for on the command line. Raises WarpsmithError for a kind, a role or a time that is none."""
    for asked, known, what in ((kinds, tuple(RECORDS), "kind of event"), (roles, ROLES, "role")):
        unknown = next((name for name in asked if name not in known), None)
        if unknown is not None:
            raise WarpsmithError(f"there is no {what} {unknown}", f"There are: {', '.join(known)}.")
    return Wanted(frozenset(kinds), frozenset(roles), None if since is None else moment(since, datetime.now(UTC)))


def moment(text: str, now: datetime) -> datetime:
    """A span ago (`10m`), or a time (`2026-11-30T10:00`, local unless it names its zone). Raises WarpsmithError."""
    try:
        return now - timedelta(seconds=seconds_of(text))
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        advice = "Give a span such as 90s, 10m, 2h or 1d, or a time such as 2026-11-30T10:00."
        raise WarpsmithError(f"--since {text} is no time", advice) from error


def show_run_log(run: RunFolder, wanted: Wanted, *, follow: bool, as_json: bool) -> bool:
    """Print the lines that are wanted. False when it was followed and its process went without an end, which is said on
    standard error. Raises BrokenPipeError, with nothing left that could be written later."""

    def show(told: Json) -> None:
        if told in wanted:
            print(json.dumps(told) if as_json else log_line(told), flush=follow)

    try:
        with Tail(run.path / "events.jsonl") as tail:
            if not follow:
                _give_out(tail, show)
            elif watch(tail, show) == "died":
                _say_died(run)
                return False
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
    return True


def _say_died(run: RunFolder) -> None:
    if run.path.is_dir():
        say_error(f"the process of {run.id} is gone without an end", f"Go on with: warpsmith resume {run.id}")
    else:
        say_error(f"the run folder {run.path} is gone", "It was moved or removed.")


def watch(
    tail: Tail,
    show: OnLine,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> How:
    """Give out all lines, and those to come until the run ends, or until its process is gone for `RESUMED_WITHIN`
    seconds. A run that was resumed goes on after its end; while a process holds it, there may be more."""
    last, gone_since = "", None
    while True:
        newest = _give_out(tail, show)
        last = newest or last
        written = tail.is_written()
        if newest or written:
            gone_since = None
        elif last in ENDS:
            return "ended"
        elif written is False:
            gone_since = now() if gone_since is None else gone_since
            if now() - gone_since >= RESUMED_WITHIN:
                return "died"
        sleep(LOOK_EVERY)


def _give_out(tail: Tail, show: OnLine) -> str | None:
    """Show what is new; the kind of the newest line that says how the run stands, None when none came."""
    newest = None
    for text in tail.lines():
        told = event_in(text)
        if told is not None:
            kind = str(told["event"])
            newest = newest if kind in AFTER_ENDS else kind
            show(told)
    return newest
