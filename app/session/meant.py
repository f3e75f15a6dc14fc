"""What a line means that a key began: written behind what stood there, or anew, with the action's name or without."""

from __future__ import annotations

from agents.settings import ROLES
from app.steer_words import USAGES

_ROLES = (*ROLES, "all")


def readings(begun: str, written: str) -> list[str]:
    """The line as an action is written, the likeliest reading first. begun: what the key wrote into it, which may be
    gone since."""
    text, lead = written.strip(), begun.split()
    if not lead:
        return [text]
    name = lead[0]
    behind = text.removeprefix(" ".join(lead)).strip()
    if _first(behind) == name and behind != text:
        text = behind  # all of it once more, behind what stood there
    first = _first(text)
    found = [text] if first in USAGES else []
    if first != name:
        found.append(f"{name} {text}")
    return [_with_role(reading, lead) for reading in found] if name == "model" else found


def _with_role(text: str, lead: list[str]) -> str:
    """A role that was named behind the one that stood there counts; where a model stands in its place, that one
    does."""
    name, *rest = text.split()
    if name != "model" or not rest or len(lead) < 2:
        return text
    if len(rest) > 1 and rest[0] == lead[1] and rest[1] in _ROLES:
        rest = rest[1:]
    elif ":" in rest[0]:
        rest = [lead[1], *rest]
    return " ".join([name, *rest])


def _first(text: str) -> str:
    return text.split(" ", 1)[0]
