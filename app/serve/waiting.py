"""Whether a run that is at work waits for a person, by its last events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from memory.files import Json


@dataclass(frozen=True)
class _Wait:
    words: str
    over: frozenset[str]
    """Events after which it no longer waits; what a person did is `steered ACTION`."""


_ALWAYS: Final = ("run_resumed", "iteration_started", "run_ended", "run_failed", "steered stop", "steered accept")
_WAITS: Final = {
    "run_paused": _Wait("waits at a limit for a person", frozenset(_ALWAYS)),
    "steered pause": _Wait("paused by a person", frozenset((*_ALWAYS, "steered resume"))),
    "plan_waits": _Wait(
        "its plan waits for a person's word",
        frozenset((*_ALWAYS, "steered approve", "steered plan", "steered reject", "hypothesis")),
    ),
}


def waits_for(events: Iterable[Json]) -> str:
    """What it waits for, in words; empty when it does not."""
    wait: _Wait | None = None
    for told in events:
        kind = str(told["event"])
        name = f"{kind} {told.get('action')}" if kind == "steered" else kind
        if name in _WAITS:
            wait = _WAITS[name]
        elif wait is not None and name in wait.over:
            wait = None
    return wait.words if wait is not None else ""
