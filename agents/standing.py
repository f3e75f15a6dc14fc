"""How far a run came, read from its folder, and which limit it is at."""

from __future__ import annotations

from typing import Any, NamedTuple

from agents import limits
from agents.limits import StopReason
from agents.models.costs import spent_so_far
from agents.settings import Budgets
from agents.state import Spent, State
from memory.runs import RunFolder


class Standing(NamedTuple):
    """What a run used of its budgets by the end of its last iteration. Times are seconds."""

    iterations: int
    stale: int
    """Attempts in a row without a gain."""
    elapsed: float
    spent: Spent
    share_of_limit: float | None
    """The best kernel's; None while there is none."""

    @classmethod
    def of(cls, run: RunFolder) -> Standing:
        """Raises RunFolderError when the folder can't be read."""
        events: list[dict[str, Any]] = [*run.events()]
        last: dict[str, Any] = next((e for e in reversed(events) if e["event"] == "iteration_ended"), {})
        attempts, best = run.attempts(), run.best()
        ended = run.outcome() or {}
        on_device = ended.get("device_seconds", sum(attempt.device_seconds for attempt in attempts))
        return cls(
            iterations=_number(ended.get("iterations", last.get("iteration"))),
            stale=_number(last.get("stale")),
            elapsed=max((float(e.get("elapsed") or 0.0) for e in events if _is_number(e.get("elapsed"))), default=0.0),
            spent=Spent(**spent_so_far(events) | {"device_seconds": float(_number(on_device))}),
            share_of_limit=None if best is None else run.attempt(best).share_of_limit,
        )

    def reaches(self, budgets: Budgets) -> StopReason | None:
        """Why the run would end at once under these limits; None when it would go on."""
        state = State(iteration=self.iterations, stale=self.stale)
        return limits.reason_to_stop(state, self.spent, self.share_of_limit, self.elapsed, budgets)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: object) -> Any:
    return value if _is_number(value) else 0
