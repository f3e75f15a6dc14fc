"""What a person handed to a run, and that it does not heed yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from agents.steering_actions import Action, Command, Exported

_LONGEST: Final = 120
_HEEDED: Final = ("steered", "steer_refused", "answered", "exported")
"""Events that tell what became of it."""


class Given:
    """Commands by their ids, until the run's log tells of them."""

    def __init__(self) -> None:
        self._heeded: set[str] = set()
        self._waiting: dict[str, str] = {}

    def take(self, line: Mapping[str, Any]) -> None:
        """The next event line."""
        if line.get("event") in _HEEDED:
            self._heeded.add(str(line.get("id")))
            self._waiting.pop(str(line.get("id")), None)

    def hand(self, commands: Iterable[Command]) -> bool:
        """What was given, by anybody; whether some of it is not heeded yet."""
        fresh = [c for c in commands if c.id not in self._heeded and not isinstance(c.action, Exported)]
        self._waiting |= {command.id: given_words(command.action) for command in fresh}
        return bool(fresh)

    @property
    def words(self) -> list[str]:
        """In the order in which it was given."""
        return list(self._waiting.values())


def given_words(action: Action | Exported) -> str:
    """The action's name and what it is about; of a kernel its parent and the remark."""
    told: Mapping[str, Any] = action.model_dump(mode="json", exclude_none=True)
    if told["action"] == "edit":
        return f"edit of {told['parent']}: {told.get('note') or 'no remark'}"[:_LONGEST]
    about = [_said(value) for name, value in told.items() if name != "action"]
    return " ".join([str(told["action"]), *filter(None, about)])[:_LONGEST]


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    return (
        " ".join(map(str, value))
        if isinstance(value, list) and all(isinstance(v, str) for v in value)
        else (str(value) if isinstance(value, str | int | float) else "")
    )
