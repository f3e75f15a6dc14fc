"""How a run ended."""

from __future__ import annotations

from collections import Counter
from typing import cast

from pydantic import BaseModel, ConfigDict, JsonValue

from agents.limits import StopReason
from agents.state import Spent
from memory.runs import RunFolder
from tools.errors import InfrastructureError


class Outcome(BaseModel):
    """How a run ended; also `outcome.json`. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: StopReason
    iterations: int
    """Finished ones."""
    best: str | None
    """Attempt id; None when no attempt was accepted."""
    counts: dict[str, int]
    """Attempts by outcome: kept, same, slower, rejected, unjudged (a0 counts as kept when accepted)."""
    rejections: dict[str, int]
    """Rejected attempts by the judge's reason."""
    elapsed: float
    device_seconds: float
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Of the input tokens, those read from the provider's cache."""
    reasoning_tokens: int = 0
    """Of the output tokens."""
    unpriced_tokens: int = 0
    """Of all tokens, those whose price nobody knows: `dollars` lacks them."""
    dollars: float
    final: dict[str, JsonValue] | None = None
    """The best kernel measured afresh against the starting kernel: a `tools.records.Verdict` as JSON.
    None when the run was stopped before it could be taken."""

    @classmethod
    def of(cls, run: RunFolder, reason: StopReason, iterations: int, elapsed: float, spent: Spent) -> Outcome:
        """What the run folder says of a run that ends now."""
        attempts, best = run.attempts(), run.best()
        final = None if best is None else run.final(best)
        rejected = [attempt for attempt in attempts if attempt.outcome == "rejected"]
        return cls(
            reason=reason,
            iterations=iterations,
            best=best,
            counts=dict(Counter(attempt.outcome for attempt in attempts)),
            rejections=dict(Counter(str(run.verdict(attempt.id)["reason"]) for attempt in rejected)),
            elapsed=elapsed,
            final=None if final is None else cast(dict[str, JsonValue], final["verdict"]),
            **spent,
        )


class RunBroken(InfrastructureError):
    """A run that had measured something was ended by a fault of the machine: `reason` says by which."""

    def __init__(self, reason: StopReason, message: str, advice: str) -> None:
        super().__init__(message, advice)
        self.reason: StopReason = reason
