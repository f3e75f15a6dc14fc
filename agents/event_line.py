"""What every line of `events.jsonl` may have beside its kind's own fields."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict

from agents.settings import Role

VERSION: Final = 2
"""Of today's lines."""


class Line(BaseModel):
    """What any line may have: who spoke, and where in the run. What does not apply is absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    v: Literal[2]
    """Version of this schema."""
    time: AwareDatetime
    """When it was written."""
    run: str | None = None
    """The run folder's name."""
    task: str | None = None
    """The task's name."""
    iteration: int | None = None
    """0 is the starting kernel."""
    turn: str | None = None
    """The turn in which it happened, as the transcript's file is called: `0003-coder-1`."""
    role: Role | None = None
    """Whose turn it is."""
    model: str | None = None
    """Who is asked, as `provider:model`."""
    attempt: str | None = None
    """The attempt that it is about, or that is being judged: `a7`."""


BOUND: Final = ("run", "task", "iteration", "turn", "role", "model", "attempt")
"""What is bound around the work that a line tells of, and stands in it where it applies."""
