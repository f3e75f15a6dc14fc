"""What a person did to a run while it went on, in the order in which it was done, and what of that its command line
leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.log_lines import time_of
from app.steer_words import in_words
from memory.files import Json


@dataclass(frozen=True)
class Deed:
    """action: as in docs/session.md, or `resume with`. when: local time, empty where the log has none. iteration: the
    one that went on, or the first whose planner knows of it; None where the log does not say."""

    action: str
    when: str
    iteration: int | None
    words: str


def deeds(events: Iterable[Json]) -> list[Deed]:
    """Of a run's event lines; empty when nobody did anything."""
    found: list[Deed] = []
    iteration: int | None = None
    for told in events:
        kind = str(told.get("event"))
        if kind == "iteration_started" and isinstance(number := told.get("iteration"), int):
            iteration = number
        read = _READ.get(kind)
        action, words = read(told) if read is not None else ("", "")
        if words:
            own = told.get("iteration") if kind == "steered" else iteration
            when = time_of(told)
            stamp = "" if when is None else f"{when.astimezone():%Y-%m-%d %H:%M:%S}"
            found.append(Deed(action, stamp, own if isinstance(own, int) else None, words))
    return found


def left_out(done: Sequence[Deed]) -> str:
    """What made the run beside its command line, as `gave 1 hint and swapped models twice`; empty when nothing did."""
    counts: dict[str, int] = {}
    for deed in done:
        if deed.action in _MADE_IT:
            counts[_MADE_IT[deed.action]] = counts.get(_MADE_IT[deed.action], 0) + 1
    parts = [words.format(n=count, s="" if count == 1 else "s") for words, count in counts.items()]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


_MADE_IT: Final[Mapping[str, str]] = {
    "hint": "gave {n} hint{s}",
    "model": "swapped models {n} time{s}",
    "edit": "had {n} kernel{s} of their own judged",
    "plan": "rewrote {n} plan{s}",
    "reject": "rejected {n} plan{s}",
    "fork": "chose {n} attempt{s} to go on from",
    "pin": "chose {n} attempt{s} to go on from",
    "forbid": "forbade {n} idea{s}",
    "budget": "changed limits {n} time{s}",
    "policy": "changed the numerics policy {n} time{s}",
    "accept": "ended it",
    "stop": "stopped it {n} time{s}",
    "resume with": "resumed it with other options {n} time{s}",
}
"""Actions without which the run would have been another one."""


def _steered(told: Json) -> tuple[str, str]:
    action = str(told.get("action"))
    return action, in_words(action, told.get("about"))


def _answered(told: Json) -> tuple[str, str]:
    return "ask", f"asked: {told.get('question')}"


def _exported(told: Json) -> tuple[str, str]:
    return "export", f"exported {told.get('attempt')} as {told.get('form')}"


def _resumed(told: Json) -> tuple[str, str]:
    """Only where something was asked for otherwise than before."""
    changes = told.get("changes")
    named = changes.items() if isinstance(changes, dict) else ()
    parts = [f"{name} {_value(change)}" for name, change in named if name != "version"]
    return "resume with", f"resumed with {', '.join(parts)}" if parts else ""


def _value(change: object) -> str:
    after = change.get("after") if isinstance(change, Mapping) else change
    return "as by default" if after is None else str(after)


_READ: Final[Mapping[str, Callable[[Json], tuple[str, str]]]] = {
    "steered": _steered,
    "answered": _answered,
    "exported": _exported,
    "run_resumed": _resumed,
}
