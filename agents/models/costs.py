"""What calls did cost, who spent it on what, and which replies it bought, as a run's events tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from agents.models.base import Usage
from agents.state import NOTHING_SPENT, Spent, added
from memory.runs import RunFolder

PAID_EVENTS = ("model_called", "model_retried", "model_failed")
"""Events that bear what a call cost: it went well, failed and was tried again, or failed for good."""


def cost_of(usage: Usage) -> Spent:
    """One call's usage as spent."""
    total = usage.input_tokens + usage.output_tokens
    return Spent(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        unpriced_tokens=total if usage.dollars is None else 0,
        dollars=usage.dollars or 0.0,
        device_seconds=0.0,
    )


def spent_so_far(events: Iterable[Mapping[str, Any]]) -> Spent:
    """What the models cost that these event lines tell of."""
    spent = NOTHING_SPENT
    for event in events:
        if event["event"] in PAID_EVENTS:
            spent = added(spent, cost_of(_usage(event)))
    return spent


class PaidReply(NamedTuple):
    """A reply that was paid for: its blob, and the model that gave it."""

    blob: str
    model: str


class Answered:
    """Replies that event lines tell of, by call."""

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        self._replies = {
            str(event["call"]): PaidReply(str(event["reply"]), str(event["model"]))
            for event in events
            if event["event"] == "model_called" and "call" in event
        }
        self._told = {(event["event"], event["call"]) for event in events if "call" in event}
        self._models = {reply.model for reply in self._replies.values()}

    def knows(self, model: str) -> bool:
        """Whether that model replied before, in this process or an earlier one."""
        return model in self._models

    def heard(self, model: str) -> None:
        """It replied."""
        self._models.add(model)

    def find(self, call: str) -> PaidReply | None:
        """The reply that this very call got before, if it did."""
        return self._replies.get(call)

    def is_new(self, event: str, call: str) -> bool:
        """Whether no earlier process told that event of that call."""
        return (event, call) not in self._told


class LedgerRow(BaseModel):
    """What one model cost in one role and iteration. `calls` went well, `failed` did not; both are paid where the
    provider says so. `dollars` is None while no price is known, and lacks the `unpriced_tokens`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: str
    model: str
    iteration: int
    calls: int
    failed: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    unpriced_tokens: int
    dollars: float | None


def ledger(run: RunFolder) -> list[LedgerRow]:
    """The run's calls by iteration, role and model, in the order in which they began."""
    return ledger_of(run.events())


def ledger_of(events: Iterable[Mapping[str, Any]]) -> list[LedgerRow]:
    """The same of events that were read already."""
    rows: dict[tuple[int, str, str], list[Mapping[str, Any]]] = {}
    for event in events:
        if event["event"] in PAID_EVENTS:
            key = (int(str(event.get("iteration", 0))), str(event["role"]), str(event["model"]))
            rows.setdefault(key, []).append(event)
    return [_row(*key, events) for key, events in rows.items()]


def _row(iteration: int, role: str, model: str, events: list[Mapping[str, Any]]) -> LedgerRow:
    spent = spent_so_far(events)
    tokens = spent["input_tokens"] + spent["output_tokens"]
    calls = sum(event["event"] == "model_called" for event in events)
    return LedgerRow(
        role=role,
        model=model,
        iteration=iteration,
        calls=calls,
        failed=len(events) - calls,
        dollars=None if tokens and spent["unpriced_tokens"] == tokens else spent["dollars"],
        input_tokens=spent["input_tokens"],
        output_tokens=spent["output_tokens"],
        cached_tokens=spent["cached_tokens"],
        reasoning_tokens=spent["reasoning_tokens"],
        unpriced_tokens=spent["unpriced_tokens"],
    )


def _usage(event: Mapping[str, Any]) -> Usage:
    """A line's usage; one that has none cost nothing. Lines of older runs lack some of the fields."""
    return Usage.model_validate({name: event[name] for name in Usage.model_fields if name in event})
