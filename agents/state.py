"""What the graph carries from step to step: small values and ids only. Texts live in the run folder by content hash.

Everything here is plain JSON once stored, so the checkpointer needs to know no type of ours. What is constant for a
run is `agents.context.Context`; it is handed over anew when a run resumes and is never stored.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field


class Hypothesis(BaseModel):
    """One change and what it should move, written before the change is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    idea: str = Field(min_length=1, max_length=2000, description="Why this should help, from what was measured.")
    change: str = Field(min_length=1, max_length=2000, description="The one change to make, concretely.")
    metric: str = Field(min_length=1, max_length=200, description="The measured figure it should move, e.g. `seconds`.")
    expected: str = Field(min_length=1, max_length=400, description="By how much, e.g. `-20 %`.")
    parent: str | None = Field(description="The attempt to start from, e.g. `a3`; null only when there is none yet.")


class Diagnosis(BaseModel):
    """The analyst's reading of one attempt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempt: str = Field(pattern=r"^a\d+$", description="Which attempt this is about.")
    bottleneck: Literal["memory", "compute", "latency", "overhead", "unknown"] = Field(
        description="The one thing that bounds the kernel now."
    )
    evidence: list[str] = Field(
        min_length=1, max_length=10, description="Measured figures or source lines that say so."
    )
    summary: str = Field(min_length=1, max_length=1500, description="What the planner should know, in a few sentences.")
    hypothesis_held: bool | None = Field(
        description="Whether the metric the hypothesis named moved as predicted; null when it was not measured."
    )


class Spent(TypedDict):
    """What was paid so far."""

    input_tokens: int
    output_tokens: int
    dollars: float
    device_seconds: float


NOTHING_SPENT = Spent(input_tokens=0, output_tokens=0, dollars=0.0, device_seconds=0.0)


def device_time(seconds: float) -> Spent:
    return Spent(input_tokens=0, output_tokens=0, dollars=0.0, device_seconds=seconds)


def added(a: Spent, b: Spent) -> Spent:
    """The sum of both; a missing one is nothing."""
    return Spent(
        input_tokens=a.get("input_tokens", 0) + b.get("input_tokens", 0),
        output_tokens=a.get("output_tokens", 0) + b.get("output_tokens", 0),
        dollars=a.get("dollars", 0.0) + b.get("dollars", 0.0),
        device_seconds=a.get("device_seconds", 0.0) + b.get("device_seconds", 0.0),
    )


def larger(a: int, b: int) -> int:
    return max(a, b)


class Begin(TypedDict):
    """All that a new run's graph is given."""

    iteration: int


class State(TypedDict, total=False):
    """The graph's state. `attempts` counts those that the run knew when the step ended: a0 to a<n-1>."""

    iteration: int
    hypotheses: int
    """How many were proposed in this iteration; 0 = the planner has nothing left."""
    attempts: Annotated[int, larger]
    best: str | None
    stale: int
    """Judged attempts since the last gain."""
    spent: Annotated[Spent, added]
    elapsed: float
    """Seconds at work, over all resumptions."""
    stop: str | None
    """A `StopReason`, once the run has ended."""


class CodeOrder(TypedDict):
    """What one coder is sent: its place in the fan-out, what was known and spent before, and a blob id."""

    iteration: int
    slot: int
    attempts: int
    spent: Spent
    hypothesis: str
