"""A whole run with scripted models on an executor that measures nothing: what tests of turns and of the graph share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import killed_run
import pytest
from scripted_model import Line, ScriptedModel, calls
from stub_executor import TASK, StubExecutor

from agents.control import Control
from agents.drive import optimize
from agents.events import Event
from agents.models import registry
from agents.models.base import Reply
from agents.outcome import Outcome
from agents.settings import ROLES, Budgets, Models, RunSettings
from memory.runs import RunFolder

SLOWER_WITH_LESS_BLOCK = killed_run.seconds_of
NO_WAITS: dict[str, Any] = {"judge_waits": ()}
"""What the judge could not do is not tried again."""


def hypothesis(change: str = "larger blocks", parent: str | None = "a0") -> dict[str, Any]:
    return {"idea": "fewer trips", "change": change, "metric": "seconds", "expected": "-50 %", "parent": parent}


def proposal(*changes: str) -> Reply:
    return calls("propose", {"hypotheses": [hypothesis(change) for change in changes]})


def judge(block: int, **more: Any) -> Reply:
    return calls("run", {"mode": "full", "candidates": [{"defines": {"BLOCK": block}, **more}]})


def reading(attempt: str, held: bool | None = True) -> Reply:
    diagnosis = {"attempt": attempt, "bottleneck": "memory", "evidence": ["90 %"], "summary": "It streams."}
    return calls("diagnose", {"diagnoses": [diagnosis | {"hypothesis_held": held}]})


class Stage:
    """A run folder, an executor, scripted models by name, and what was told. Made by `set_up`."""

    def __init__(self, root: Path) -> None:
        self.run = RunFolder.create(root, "stub", {})
        self.executor = StubExecutor(SLOWER_WITH_LESS_BLOCK)
        self.events: list[Event] = []
        self.heard: list[tuple[str, str]] = []
        """Pieces of text, by role."""
        self.models: dict[str, ScriptedModel] = {}
        self.control = Control()

    def script(self, planner: Sequence[Line], coder: Sequence[Line], analyst: Sequence[Line]) -> None:
        for role, lines in (("planner", planner), ("coder", coder), ("analyst", analyst)):
            self.add(role, lines)

    def add(self, name: str, lines: Sequence[Line], **more: Any) -> ScriptedModel:
        """A model `scripted:NAME`."""
        self.models[name] = ScriptedModel(lines, name=f"scripted:{name}", **more)
        return self.models[name]

    async def play(
        self,
        model: str = "scripted",
        parallel: int = 1,
        fallback: Sequence[str] = (),
        settings: dict[str, Any] | None = None,
        **budgets: Any,
    ) -> Outcome:
        """One iteration, unless a budget says otherwise. fallback: of every role."""
        unbounded = {"iterations": 1, "near_limit": None, "patience": None}
        models = Models(
            **{role: f"{model}:{role}" for role in ROLES}, fallback={role: tuple(fallback) for role in ROLES}
        )
        asked = RunSettings(
            budgets=Budgets(**(unbounded | budgets)),
            models=Models() if model == "autotune" else models,
            parallel=parallel,
            **(NO_WAITS | (settings or {})),
        )
        return await optimize(
            TASK,
            asked,
            self.run,
            self.executor,
            self.events.append,
            control=self.control,
            on_text=lambda role, piece: self.heard.append((role, piece)),
        )

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [event.fields for event in self.events if event.event == kind]

    def spoken(self, turn: str) -> list[dict[str, Any]]:
        """The lines of a turn's transcript."""
        path = self.run.path / "transcript" / f"{turn}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


def set_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage whose models are found as `scripted:NAME`."""
    made = Stage(root)
    monkeypatch.setitem(registry.LOCAL, "scripted", lambda spec, _: made.models[spec.model])
    return made
