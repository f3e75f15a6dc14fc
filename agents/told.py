"""What earlier processes wrote into a run's events: what they finished is neither done nor told again.

Every model call and every tool call has a name that follows from its place in the run alone (`0003-coder-1/4`), never
from a process or a checkpoint. So the events say all that was paid for, and a run whose checkpoints are gone is driven
again from them without paying twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

from agents.limits import NEARLY

COSTLY: Final = 0.05
"""Seconds. What took longer, or cost money, is on the disk before the run goes on; the rest is cheap to do again after
a power cut."""

_ONCE: Final[dict[str, tuple[str, ...]]] = {
    "iteration_started": ("iteration",),
    "hypothesis": ("iteration", "change", "parent"),
    "attempt_judged": ("attempt",),
    "best_changed": ("attempt",),
    "diagnosed": ("attempt", "summary"),
    "tool_called": ("call",),
    "iteration_ended": ("iteration",),
    "samples_raced": ("call",),
}
"""Kinds of which there is one line for each of these values."""


class Acted(TypedDict):
    """A finished tool call: the answer's blob, and what it cost."""

    answer: str
    device_seconds: float


class Raced(TypedDict):
    """A race of samples: which was the fastest, and what it cost."""

    chosen: int | None
    device_seconds: float


class Told:
    """Event lines of earlier processes, looked up."""

    def __init__(self, events: Sequence[Mapping[str, Any]] = ()) -> None:
        self.any = bool(events)
        """Whether the run was begun before."""
        self.elapsed = max((float(event.get("elapsed") or 0.0) for event in events), default=0.0)
        """Seconds at work."""
        kinds = [event["event"] for event in events if event["event"] in ("stopping", "run_ended")]
        self.is_concluded = kinds[-1:] != ["stopping"]
        """Whether a run that ended says so in its outcome too."""
        self._keys = {key for event in events if (key := _key(event["event"], event)) is not None}
        self._acted = {
            str(event["call"]): Acted(answer=str(event["answer"]), device_seconds=float(event["device_seconds"]))
            for event in events
            if event["event"] == "tool_called" and {"call", "answer", "device_seconds"} <= event.keys()
        }
        self._raced = {
            str(event["call"]): Raced(chosen=event["chosen"], device_seconds=float(event["device_seconds"]))
            for event in events
            if event["event"] == "samples_raced"
        }
        stops = [event for event in events if event["event"] == "stopping"]
        self._given_up = Counter(event.get("iteration") for event in stops if event["reason"] == "exhausted")
        self._low: list[Mapping[str, Any]] = [event for event in events if event["event"] == "budget_low"]
        self._ended = {event["iterations"] for event in events if event["event"] == "run_ended"}

    def is_new(self, event: str, fields: Mapping[str, Any]) -> bool:
        """Whether no earlier process told this, as far as it is told once."""
        return _key(event, fields) not in self._keys

    def told_low(self, budget: str, limit: float, before: int | None = None) -> bool:
        """Whether it was told that so much of a budget is gone that it is nearly used up by this limit as well.

        before: only what was told before that iteration began.
        """
        return any(
            low["budget"] == budget and low["used"] / limit >= NEARLY and (before is None or low["iteration"] < before)
            for low in self._low
        )

    def note_low(self, **fields: Any) -> None:
        """This process told of a budget that is nearly used up."""
        self._low.append(fields)

    def acted(self, call: str) -> Acted | None:
        """What that tool call came to, if it was finished."""
        return self._acted.get(call)

    def raced(self, call: str) -> Raced | None:
        """What that race came to, if it was finished."""
        return self._raced.get(call)

    def ended_after(self, iteration: int) -> bool:
        """Whether the run ended in order after that iteration before."""
        return iteration in self._ended

    def name_of(self, turn: str, iteration: int) -> str:
        """Under which name a turn's calls are found: its own, and another one when the planner had nothing left in that
        iteration and is asked anew."""
        times = self._given_up[iteration]
        return f"{turn}~{times}" if times else turn


def _key(event: str, fields: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What tells a line from the others of its kind; None where it may be told any number of times."""
    names = _ONCE.get(event)
    if names is None or any(name not in fields for name in names):
        return None
    return (event, *(fields[name] for name in names))
