"""What the graph carries from step to step: small values and ids only. Texts live in the run folder by content hash.

Everything here is plain JSON once stored, so the checkpointer needs to know no type of ours. What is constant for a
run is `agents.context.Context`; it is handed over anew when a run resumes and is never stored.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, TypedDict

from pydantic import BaseModel, ConfigDict, Field

Kind: TypeAlias = Literal[
    "tiling",
    "vectorization",
    "memory_layout",
    "fusion",
    "parallelism",
    "precision",
    "unrolling",
    "prefetching",
    "algorithm",
    "flags",
    "other",
]
"""What sort of idea a hypothesis is; how often each came true is counted by it."""


class Hypothesis(BaseModel):
    """One change and what it should move, written before the change is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    idea: str = Field(min_length=1, max_length=2000, description="Why this should help, from what was measured.")
    change: str = Field(min_length=1, max_length=2000, description="The one change to make, concretely.")
    metric: str = Field(min_length=1, max_length=200, description="The measured figure it should move, e.g. `seconds`.")
    expected: str = Field(min_length=1, max_length=400, description="By how much, e.g. `-20 %`.")
    parent: str | None = Field(description="The attempt to start from, e.g. `a3`; null only when there is none yet.")
    lessons: list[int] = Field(
        default=[],
        max_length=8,
        description="Numbers of lessons that this change puts to the test; what it measures counts for or against.",
    )
    kind: Kind = Field(default="other", description="What sort of idea it is.")


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
    """What was paid so far. `input_tokens` and `output_tokens` are all tokens; `cached_tokens` and `reasoning_tokens`
    are parts of them, as are `unpriced_tokens`, whose price nobody knows and which `dollars` therefore lacks."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    unpriced_tokens: int
    dollars: float
    device_seconds: float


NOTHING_SPENT = Spent(
    input_tokens=0,
    output_tokens=0,
    cached_tokens=0,
    reasoning_tokens=0,
    unpriced_tokens=0,
    dollars=0.0,
    device_seconds=0.0,
)


def added(a: Spent, b: Spent) -> Spent:
    """The sum of both."""
    return Spent(
        input_tokens=a["input_tokens"] + b["input_tokens"],
        output_tokens=a["output_tokens"] + b["output_tokens"],
        cached_tokens=a["cached_tokens"] + b["cached_tokens"],
        reasoning_tokens=a["reasoning_tokens"] + b["reasoning_tokens"],
        unpriced_tokens=a["unpriced_tokens"] + b["unpriced_tokens"],
        dollars=a["dollars"] + b["dollars"],
        device_seconds=a["device_seconds"] + b["device_seconds"],
    )


def larger(a: int, b: int) -> int:
    return max(a, b)


class Draft(TypedDict):
    """What one of several coders of a hypothesis left. `hypothesis` and `kernel` are blob ids; `kernel` is None when
    it built nothing."""

    iteration: int
    slot: int
    sample: int
    turn: str
    hypothesis: str
    kernel: str | None


def of_newest(a: Sequence[Draft], b: Sequence[Draft]) -> list[Draft]:
    """The drafts of the newest iteration, so that they do not pile up."""
    newest = max((draft["iteration"] for draft in (*a, *b)), default=0)
    return [draft for draft in (*a, *b) if draft["iteration"] == newest]


class Begin(TypedDict):
    """All that a new run's graph is given."""

    iteration: int


class State(TypedDict, total=False):
    """The graph's state. `attempts` counts those that the run knew when the step ended: a0 to a<n-1>."""

    iteration: int
    hypotheses: int
    """How many were proposed in this iteration; 0 = the planner has nothing left."""
    plan: list[str]
    """Blob ids of what was proposed, while it waits for a person's word."""
    plans: int
    """Plans of this iteration that a person rejected before that one."""
    attempts: Annotated[int, larger]
    best: str | None
    stale: int
    """Judged attempts since the last gain."""
    idle: int
    """Iterations since something was judged."""
    drafts: Annotated[list[Draft], of_newest]
    """Kernels that the judge is to choose from, where several are drawn for a hypothesis."""
    device_seconds: Annotated[float, operator.add]
    """Spent on the device by the steps that ended. What models cost is not in here: events.jsonl holds each call, paid
    once however often the run is resumed (`agents.models.costs`)."""
    elapsed: float
    """Seconds at work, over all resumptions."""
    stop: str | None
    """A `StopReason`, once the run has ended."""


class CodeOrder(TypedDict):
    """What one coder is sent: its place in the fan-out, which of several for its hypothesis it is (from 1; None when
    it is the only one), what was known and spent before, and a blob id."""

    iteration: int
    slot: int
    sample: int | None
    attempts: int
    device_seconds: float
    hypothesis: str
