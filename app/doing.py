"""What a run does at the moment and what it waits for, in words, and for how long. Known from events alone: of a turn's
first call an event tells that it has begun, and of the others each tells what follows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from agents.models.spec import is_built_in
from app.quantities import span

WORTH_TELLING: Final = 3.0
"""Seconds that something takes until it is said how long it does."""
_WAITS: Final = "waiting for "
_ARE_OUT: Final = " are out"


def doing_after(kind: str, fields: Mapping[str, Any], models: Mapping[str, str]) -> str | None:
    """What goes on after that event, where that is a model's turn; None where the event says nothing of it. models:
    who plays each role."""
    says = _AFTER.get(kind)
    return None if says is None else says(fields, models)


def _waits(role: str, models: Mapping[str, str]) -> str | None:
    model = models.get(role)
    return None if model is None or is_built_in(model) else f"{role}: {_WAITS}{model}"


def _coder(f: Mapping[str, Any], models: Mapping[str, str]) -> str:
    return f"{_waits('coder', models) or 'coder'}: {f.get('change') or ''}"


def _tool(f: Mapping[str, Any], models: Mapping[str, str]) -> str:
    role = str(f.get("role"))
    return _waits(role, models) or f"{role}: {f.get('tool')}"


def _answered(f: Mapping[str, Any], _: Mapping[str, str]) -> str:
    asked = "; what it asked for is carried out" if f.get("stop") == "tools" else ""
    return f"{f.get('role')}: {f.get('model')} answered{asked}"


def once_open(attempts: object) -> str:
    """What goes on once the task is open, after so many attempts in earlier processes. Whoever is asked then, is told
    of."""
    return "going on where it stopped" if attempts else "judging the starting kernel"


_AFTER: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, str]], str | None]]] = {
    "iteration_started": lambda _, models: _waits("planner", models) or "planner: thinks what to try",
    "turn_started": lambda f, _: _waits(str(f.get("role")), {str(f.get("role")): str(f.get("model"))}),
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
    if seconds < WORTH_TELLING or not doing:
        return doing
    oldest = "the oldest for " if doing.endswith(_ARE_OUT) else ""
    return f"{doing}, {oldest}{span(seconds)}"


def moment_of(line: Mapping[str, Any]) -> float | None:
    """When an event line was written, in seconds of the clock; None for one that doesn't say."""
    try:
        return datetime.fromisoformat(str(line.get("time"))).timestamp()
    except ValueError:
        return None


class Out:
    """Calls of coders that no reply came to yet, where several work at the same time. A coder is known by its turn once
    an event names that, and until then by its hypothesis: of several coders to one hypothesis fewer are counted."""

    def __init__(self) -> None:
        self._asked: dict[str, float] = {}
        """When each turn's call began."""
        self._unnamed: list[float] = []
        """When the calls of those began whose turn is not known yet."""
        self._turns: set[str] = set()

    def take(
        self, kind: str, fields: Mapping[str, Any], models: Mapping[str, str], moment: float
    ) -> tuple[str, float] | None:
        """The next event, and when it was; what is out and since when, where it is about that and several are."""
        if kind in _ALL_BACK:
            self._asked, self._unnamed, self._turns = {}, [], set()
        if kind == "hypothesis":
            self._unnamed.append(moment)
        elif fields.get("role") == "coder" and kind in (*_ASKED, *_ANSWERED):
            self._about(str(fields.get("turn")), moment if kind in _ASKED else None)
        else:
            return None
        model, out = models.get("coder"), [*self._unnamed, *self._asked.values()]
        if len(out) < 2 or model is None or is_built_in(model):
            return None
        return f"coder: {len(out)} calls of {model}{_ARE_OUT}", min(out)

    def _about(self, turn: str, asked: float | None) -> None:
        """That turn's model was asked then, or answered."""
        if turn not in self._turns:
            self._turns.add(turn)
            self._unnamed = self._unnamed[1:]
        self._asked.pop(turn, None)
        if asked is not None:
            self._asked[turn] = asked


_ASKED: Final = ("turn_started", "tool_called", "model_changed")
_ANSWERED: Final = ("model_called", "model_failed")
_ALL_BACK: Final = ("iteration_started", "iteration_ended", "run_started", "run_resumed")


class Doing:
    """What goes on, folded from a run's events as they happen."""

    def __init__(self) -> None:
        self.text = ""
        self._models: dict[str, str] = {}
        self._attempts: object = None
        """Of earlier processes."""
        self._out = Out()
        self._since = time.monotonic()

    def take(self, kind: str, fields: Mapping[str, Any]) -> bool:
        """The next event; whether something else goes on after it."""
        models, about = fields.get("models"), fields.get("about")
        if kind in ("run_started", "run_resumed") and isinstance(models, Mapping):
            self._models = {str(role): str(model) for role, model in models.items()}
            self._attempts = fields.get("attempts")
        elif kind == "model_changed":
            self._models[str(fields.get("role"))] = str(fields.get("after"))
        elif kind == "steered" and fields.get("action") == "model" and isinstance(about, Mapping):
            self._models[str(about.get("role"))] = str((about.get("models") or [""])[0])
        opened = once_open(self._attempts) if kind == "task_opened" else None
        text = opened or _BEGUN.get(kind) or doing_after(kind, fields, self._models)
        if text is not None:
            self.begin(text)
        several = self._out.take(kind, fields, self._models, time.monotonic())
        if several is not None:
            self.text, self._since = several
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
    "stopping": "measuring the best kernel afresh",
}
