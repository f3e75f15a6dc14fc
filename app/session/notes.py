"""What pops up when the run answers a person, or waits for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.session.lines import clean
from app.steer_words import in_words

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

ANSWERS: Final = ("steered", "steer_refused")
"""Events that say whether the run took what it was given."""


class Note(NamedTuple):
    """Shown for so many seconds; None as long as any."""

    text: str
    seconds: float | None = None
    title: str = ""
    severity: SeverityLevel = "information"


def note_of(line: Mapping[str, Any], of_draft: str = "") -> Note | None:
    """What is said of an event; None for one that nobody is told of. of_draft: what it means for what was edited."""
    match line["event"]:
        case "steered":
            return Note(clean(in_words(str(line.get("action")), line.get("about")), 200), 4.0)
        case "steer_refused":
            told = f"{line.get('action')} was refused: {line.get('message')}. {line.get('advice')} {of_draft}"
            return Note(clean(told.strip()), 12.0 if of_draft else 8.0, severity="error")
        case "answered":
            return Note(clean(str(line.get("answer")), 400), 10.0, "answered")
        case "plan_waits":
            return Note("a approves it, r rejects it, E edits it", None, "The plan waits for you")
        case _:
            return None
