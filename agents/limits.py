"""When a run ends: a closed set of reasons, looked at between steps; and which budgets are nearly used up by then.

Not here: `user`, `models_unavailable` and `turn_over`, which `agents.course` learns of, the faults of the machine
(`agents.faults`), and `exhausted`, which the planner says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from agents.settings import Budgets
from agents.state import Spent, State

StopReason: TypeAlias = Literal[
    "iterations",
    "near_limit",
    "patience",
    "exhausted",
    "idle",
    "money",
    "tokens",
    "wall_time",
    "device_time",
    "user",
    "models_unavailable",
    "turn_over",
    "disk",
    "judge",
    "memory",
    "state",
]

Budget: TypeAlias = Literal["iterations", "money", "tokens", "wall_time", "device_time", "patience"]
"""What a run uses up, by the reason for which it ends then."""
BUDGET_WORDS: Final[dict[Budget, str]] = {
    "iterations": "iterations",
    "money": "money",
    "tokens": "tokens",
    "wall_time": "time",
    "device_time": "device time",
    "patience": "attempts without a gain",
}
NEARLY: Final = 0.8
"""Share of a budget at which a run says that it is nearly used up."""
LIFTABLE: Final[tuple[StopReason, ...]] = (
    "iterations",
    "money",
    "tokens",
    "wall_time",
    "device_time",
    "patience",
    "near_limit",
)
"""Reasons that a larger limit takes away."""

IDLE: Final = 5
"""Iterations in a row of which no attempt comes, after which a run ends: a plan that is refused again and again, or
coders that hand in nothing, would burn all that is left."""
STOP_WORDS: dict[StopReason, str] = {
    "iterations": "the iteration limit was reached",
    "near_limit": "the best kernel is as near to the physical limit as asked for",
    "patience": "no gain in the last attempts",
    "exhausted": "the planner has nothing left to try",
    "idle": f"nothing was tried in the last {IDLE} iterations",
    "money": "the money budget was spent",
    "tokens": "the token budget was spent",
    "wall_time": "the time budget was spent",
    "device_time": "the device time budget was spent",
    "user": "stopped by the user",
    "models_unavailable": "no model could be reached",
    "turn_over": "its turn in the batch is over; the batch goes on with it",
    "disk": "the run folder could not be written or read",
    "judge": "the machine could no longer judge",
    "memory": "the machine ran out of memory",
    "state": "the database with the checkpoints could not be used",
}


GRACE: Final = 60.0
"""Seconds from one step to the next by which a run ends in which something hangs (`agents.alarm`)."""
SHARE: Final = 0.1
"""Of the time budget, that the first step waits longer."""


def lets_go_at(wall_time: float) -> float:
    """Seconds at work after which a call that hangs is let go, under a time budget of so many."""
    return (1 + SHARE) * wall_time + GRACE


def limits_of(budgets: Budgets) -> dict[Budget, float | None]:
    """None is no bound."""
    return {
        "iterations": budgets.iterations,
        "money": budgets.dollars,
        "tokens": budgets.tokens,
        "wall_time": budgets.wall_time,
        "device_time": budgets.device_time,
        "patience": budgets.patience,
    }


class Gauge(NamedTuple):
    """How much of a budget is used: iterations, US dollars, tokens, seconds or attempts."""

    budget: Budget
    used: float
    limit: float


class Clock:
    """Seconds at work: those of earlier resumptions, and those since `start`, which is once the starting kernel was
    judged. So what it takes to begin, or to begin again, is no part of the search's time.

    A lap is one iteration. What models and the device took of it is told by `outside`; the rest is ours. Coders in
    parallel wait at the same time, so with several of them the rest is only a lower bound.
    """

    def __init__(self, before: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._before = before
        self._started: float | None = None
        self._held: float | None = None
        self.begin_lap()

    def start(self) -> None:
        """It runs from now on, if it did not before."""
        if self._started is None:
            self._started = self._now()
            self._held = None if self._held is None else self._started

    def hold(self) -> None:
        """It stands still: the run waits for a person."""
        if self._held is None:
            self._held = self._now()

    def go_on(self) -> None:
        """It runs again."""
        if self._held is not None:
            waited, self._held = self._now() - self._held, None
            self._lap += waited
            self._started = None if self._started is None else self._started + waited

    def begin_lap(self) -> None:
        self._lap, self._outside = self._now(), 0.0

    def outside(self, seconds: float) -> None:
        """So much of this lap was a model's or the device's."""
        self._outside += seconds

    @property
    def lap_inside(self) -> float:
        """Seconds of this lap that were our own."""
        return max(0.0, self._now() - self._lap - self._outside)

    @property
    def elapsed(self) -> float:
        now = self._now() if self._held is None else self._held
        return self._before + (0.0 if self._started is None else max(0.0, now - self._started))


def spending(spent: Spent, elapsed: float, budgets: Budgets) -> list[Gauge]:
    """The bounded budgets that are used up amid an iteration too."""
    used: dict[Budget, float] = {
        "money": spent["dollars"],
        "tokens": spent["input_tokens"] + spent["output_tokens"],
        "wall_time": elapsed,
        "device_time": spent["device_seconds"],
    }
    return _bounded(used, budgets)


def gauges(state: State, spent: Spent, elapsed: float, budgets: Budgets) -> list[Gauge]:
    """All bounded budgets, between two iterations."""
    used: dict[Budget, float] = {"iterations": state["iteration"], "patience": state["stale"]}
    return [*spending(spent, elapsed, budgets), *_bounded(used, budgets)]


def _bounded(used: dict[Budget, float], budgets: Budgets) -> list[Gauge]:
    limits = limits_of(budgets)
    return [Gauge(budget, amount, limit) for budget, amount in used.items() if (limit := limits[budget]) is not None]


def nearly_used(found: Sequence[Gauge]) -> list[Gauge]:
    """Those of which `NEARLY` is gone and something is left."""
    return [gauge for gauge in found if gauge.used < gauge.limit and gauge.used / gauge.limit >= NEARLY]


def out_of_budget(spent: Spent, elapsed: float, budgets: Budgets) -> StopReason | None:
    """The budget that is used up, if one is. Also asked within a turn, before each model call."""
    return next((gauge.budget for gauge in spending(spent, elapsed, budgets) if gauge.used >= gauge.limit), None)


def reason_to_stop(
    state: State, spent: Spent, share_of_limit: float | None, elapsed: float, budgets: Budgets
) -> StopReason | None:
    """Why the run ends before its next iteration, or None.

    spent: by the whole run so far. share_of_limit: the best kernel's, None while there is none.
    """
    if budgets.near_limit is not None and share_of_limit is not None and share_of_limit >= 1 - budgets.near_limit:
        return "near_limit"
    if reason := out_of_budget(spent, elapsed, budgets):
        return reason
    if _no_time_for_another(state["iteration"], elapsed, budgets):
        return "wall_time"
    counted: dict[StopReason, bool] = {
        "iterations": state["iteration"] >= budgets.iterations,
        "patience": budgets.patience is not None and state["stale"] >= budgets.patience,
        "idle": state.get("idle", 0) >= IDLE,
    }
    return next((reason for reason, is_over in counted.items() if is_over), None)


def _no_time_for_another(iteration: int, elapsed: float, budgets: Budgets) -> bool:
    """Whether less time is left than half an iteration took so far."""
    return budgets.wall_time is not None and iteration > 0 and budgets.wall_time - elapsed < elapsed / iteration / 2


def time_left(iteration: int, elapsed: float, budgets: Budgets) -> float | None:
    """Seconds until the iterations or the wall time run out, whichever is first; None before the first iteration
    ended."""
    bounds = [] if budgets.wall_time is None else [budgets.wall_time - elapsed]
    if iteration > 0:
        bounds.append((budgets.iterations - iteration) * elapsed / iteration)
    return max(0.0, min(bounds)) if bounds else None
