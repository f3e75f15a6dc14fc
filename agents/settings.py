"""What a person may set about a run, each with its default in this one place."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Role: TypeAlias = Literal["planner", "coder", "analyst"]

DEFAULT_MODEL = "builtin:autotune"


class Budgets(BaseModel):
    """When a run ends. None is no bound."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    iterations: int = Field(default=200, ge=1)
    """Rounds of plan, code and analyse."""
    near_limit: float | None = Field(default=0.05, gt=0, lt=1)
    """End when the best time is this near to the physical limit; 0.05: at 95 % of what the hardware allows."""
    patience: int | None = Field(default=40, ge=1)
    """End after this many judged attempts in a row without a gain."""
    dollars: float | None = Field(default=None, gt=0)
    """Money for model calls, US dollars."""
    tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens of all model calls."""
    wall_time: float | None = Field(default=None, gt=0)
    """Seconds from the start of the run."""
    device_time: float | None = Field(default=None, gt=0)
    """Seconds of building, judging and profiling."""


class Models(BaseModel):
    """Which model plays each role, as `provider:model`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    planner: str = DEFAULT_MODEL
    coder: str = DEFAULT_MODEL
    analyst: str = DEFAULT_MODEL

    @classmethod
    def choose(
        cls, model: str | None = None, planner: str | None = None, coder: str | None = None, analyst: str | None = None
    ) -> Models:
        """`model` for every role that has none of its own."""
        every = model or DEFAULT_MODEL
        return cls(planner=planner or every, coder=coder or every, analyst=analyst or every)


class RunSettings(BaseModel):
    """One run's settings, resolved: nothing in here is inherited from anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budgets: Budgets = Budgets()
    models: Models = Models()
    language: Literal["cpp", "cuda"] = "cpp"
    """What kernels are written in; the target follows from it."""
    parallel: int = Field(default=1, ge=1, le=16)
    """Hypotheses an iteration; their coders run in parallel, timings never do."""
    turn_steps: int = Field(default=40, ge=1)
    """Model calls in one turn of one role."""
    context_tokens: int = Field(default=128_000, ge=8_000)
    """A prompt never holds more, whatever the model's window."""
    reply_tokens: int = Field(default=16_000, ge=1_000)
    """Kept free for the model's reply."""
    seed: int = 0
    """Of `builtin:autotune`'s search; the judge's seeds are secret and never set."""
