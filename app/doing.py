"""What a run does at the moment and what it waits for, in words, and for how long. Known from events alone: no event
tells that a call has begun, but each tells what follows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from app.quantities import span

WORTH_TELLING: Final = 3.0
"""Seconds that something takes until it is said how long it does."""
_WAITS: Final = "waiting for "
_ITSELF: Final = "builtin:"
"""Models that are a part of this program: nothing is waited for."""


def doing_after(kind: str, fields: Mapping[str, Any], models: Mapping[str, str]) -> str | None:
    """What goes on after that event, where that is a model's turn; None where the event says nothing of it. models:
    who plays each role."""
    says = _AFTER.get(kind)
    return None if says is None else says(fields, models)


def _waits(role: str, models: Mapping[str, str]) -> str | None:
    model = models.get(role, _ITSELF)
    return None if model.startswith(_ITSELF) else f"{role}: {_WAITS}{model}"


def _coder(f: Mapping[str, Any], models: Mapping[str, str]) -> str:
    return f"{_waits('coder', models) or 'coder'}: {f.get('change') or ''}"


def _tool(f: Mapping[str, Any], models: Mapping[str, str]) -> str:
    role = str(f.get("role"))
    return _waits(role, models) or f"{role}: {f.get('tool')}"


def _answered(f: Mapping[str, Any], _: Mapping[str, str]) -> str:
    asked = "; what it asked for is carried out" if f.get("stop") == "tools" else ""
    return f"{f.get('role')}: {f.get('model')} answered{asked}"


_AFTER: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, str]], str | None]]] = {
    "iteration_started": lambda _, models: _waits("planner", models) or "planner: thinks what to try",
    "hypothesis": _coder,
    "profiled": lambda _, models: _waits("analyst", models),
    "tool_called": _tool,
    "model_changed": lambda f, _: _waits(str(f.get("role")), {str(f.get("role")): str(f.get("after"))}),
    "model_called": _answered,
}


def while_spoken(doing: str, role: str) -> str:
    """The same, once the model that is waited for has begun to answer."""
    begun = f"{role}: {_WAITS}"
    return doing.replace(begun, f"{role}: hears ", 1) if doing.startswith(begun) else doing


def timed(doing: str, seconds: float) -> str:
    """With how long that has been so."""
    return doing if seconds < WORTH_TELLING or not doing else f"{doing}, {span(seconds)}"


def moment_of(line: Mapping[str, Any]) -> float | None:
    """When an event line was written, in seconds of the clock; None for one that doesn't say."""
    try:
        return datetime.fromisoformat(str(line.get("time"))).timestamp()
    except ValueError:
        return None


class Doing:
    """What goes on, folded from a run's events as they happen."""

    def __init__(self) -> None:
        self.text = ""
        self._models: dict[str, str] = {}
        self._since = time.monotonic()

    def take(self, kind: str, fields: Mapping[str, Any]) -> bool:
        """The next event; whether something else goes on after it."""
        models, about = fields.get("models"), fields.get("about")
        if kind in ("run_started", "run_resumed") and isinstance(models, Mapping):
            self._models = {str(role): str(model) for role, model in models.items()}
        elif kind == "model_changed":
            self._models[str(fields.get("role"))] = str(fields.get("after"))
        elif kind == "steered" and fields.get("action") == "model" and isinstance(about, Mapping):
            self._models[str(about.get("role"))] = str((about.get("models") or [""])[0])
        text = _BEGUN.get(kind) or doing_after(kind, fields, self._models)
        if text is not None:
            self.begin(text)
        return text is not None

    def begin(self, text: str) -> None:
        """That goes on from now."""
        self.text, self._since = text, time.monotonic()

    def __str__(self) -> str:
        """With how long it does."""
        return timed(self.text, time.monotonic() - self._since)


_BEGUN: Final = {
    "run_started": "opening the task, measuring the machine and the baseline",
    "run_resumed": "opening the task, measuring the machine and the baseline",
    "task_opened": "judging the starting kernel",
    "stopping": "measuring the best kernel afresh",
}
