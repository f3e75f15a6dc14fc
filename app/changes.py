"""What is asked of a run otherwise than before.

`config.json` always holds what is asked for; its `history` says what was asked for before, one entry a resumption that
changed something, and is only ever added to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pydantic import JsonValue

from agents.settings import RunSettings
from memory.files import Json

Changes: TypeAlias = Mapping[str, tuple[JsonValue, JsonValue]]
"""What is asked for otherwise, before and after, by dotted name: `budgets.iterations`, `models.coder`, `executor`."""


def changes_between(
    before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]
) -> dict[str, tuple[JsonValue, JsonValue]]:
    """What is asked for otherwise, by dotted name: `budgets.iterations`, `models.coder`, `executor`, `version`."""
    old, new = dict(_flat(_compared(before))), dict(_flat(_compared(after)))
    names = [*old, *(name for name in new if name not in old)]
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def _compared(config: Mapping[str, JsonValue]) -> Json:
    """What may change, under the names that a person is told."""
    settings = RunSettings.model_validate(config["settings"]).model_dump(mode="json")
    kept = {name: config.get(name) for name in ("executor", "state", "version")}
    return {**settings, **kept, "endpoints": config.get("endpoints") or {}}


def _flat(value: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Nested objects as dotted names; an empty one, and one that lacks a field that another has, as None."""
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _flat(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", part or None


def as_told(changes: Changes) -> Json:
    """For the event `run_resumed` and for the history."""
    return {name: {"before": before, "after": after} for name, (before, after) in changes.items()}


def with_history(before: Json, wanted: Json, changes: Changes) -> Json:
    """The configuration from now on."""
    history = before.get("history")
    entries = list(history) if isinstance(history, list) else []
    if changes:
        entries.append({"at": time.time(), "command": wanted["command"], "changes": as_told(changes)})
    return before | wanted | {"command": before.get("command", wanted["command"]), "history": entries}
