"""What was thought of and what was tried in a run, as its events tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Mark: TypeAlias = Literal["kept", "same", "slower", "rejected", "unjudged", "tried", "waits", "dropped"]
"""How a node of the plan stands: an attempt's outcome, or that of a hypothesis that is no attempt yet."""


@dataclass
class Idea:
    """A hypothesis, and the attempts that came of it."""

    iteration: int
    change: str
    idea: str
    metric: str
    expected: str
    parent: str | None
    mark: Mark = "tried"
    attempts: list[str] = field(default_factory=list)


@dataclass
class Tried:
    """An attempt as its event tells it."""

    id: str
    parent: str | None
    iteration: int
    outcome: Mark
    change: str
    note: str
    seconds: float | None
    share: float | None
    speedup: float | None
    person: str | None
    idea: Idea | None
