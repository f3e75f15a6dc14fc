"""Which models played the roles of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agents.settings import ROLES
from memory.files import Json


def short_models(models: Mapping[str, str]) -> str:
    """One name for all roles, or each role's."""
    names = list(dict.fromkeys(models.values()))
    if len(names) == 1:
        return names[0]
    return ", ".join(f"{role} {name}" for role, name in models.items()) or "unknown"


def models_of(config: Json, events: Iterable[Json]) -> dict[str, str]:
    """Role to model as the run was begun or last resumed by `events`, else as its configuration says. Where others
    played it before or after, by a person's word, all in their order: `openai:a then openai:b`."""
    told = next(
        (event["models"] for event in reversed(list(events)) if event["event"] in ("run_started", "run_resumed")), None
    )
    if not isinstance(told, dict):
        settings = config.get("settings")
        told = settings.get("models") if isinstance(settings, dict) else None
    found = told if isinstance(told, dict) else {}
    return {
        role: " then ".join(dict.fromkeys((*before, str(found[role]), *after)))
        for role in ROLES
        if isinstance(found.get(role), str)
        for before, after in [_swaps(config, role)]
    }


def _swaps(config: Json, role: str) -> tuple[list[str], list[str]]:
    """Which models played the role before another one was given to it, and which were given, by the run's history."""
    history, name = config.get("history"), f"models.{role}"
    before, after = list[str](), list[str]()
    for entry in history if isinstance(history, list) else []:
        changes = entry.get("changes") if isinstance(entry, dict) else None
        told = changes if isinstance(changes, dict) else {}
        whole, own = told.get("models"), told.get(name)
        for when, into in (("before", before), ("after", after)):
            models = whole.get(when) if isinstance(whole, dict) else None
            value = own.get(when) if isinstance(own, dict) else models.get(role) if isinstance(models, dict) else None
            into.extend([value] if isinstance(value, str) else [])
    return before, after
