"""Why a run ended, in words: what its reason says, and what a person did where that alone does not tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from agents.limits import STOP_WORDS, StopReason
from memory.files import Json

_BY_ACTION: Final = {"accept": "accepted by the user"}
"""By the action that ended a run with the reason `user`; any other end of a person's is a stop."""


def end_words(reason: StopReason, events: Callable[[], Iterable[Json]]) -> str:
    """The words of a reason; `events` gives the run's, its last ones at least, and is called where they matter."""
    action = _ended_by(events()) if reason == "user" else None
    return _BY_ACTION.get(action or "", STOP_WORDS[reason])


def _ended_by(events: Iterable[Json]) -> str | None:
    """The action that the run's last end came of, which may be an earlier process's."""
    wished, ended = None, None
    for event in events:
        match event["event"]:
            case "steered" if event.get("action") in _BY_ACTION:
                wished = str(event["action"])
            case "run_ended":
                wished, ended = None, wished
            case _:
                pass
    return ended
