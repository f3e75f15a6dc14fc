"""When a run ends: a closed set of reasons, looked at between steps.

Not here: `user`, `models_unavailable` and `turn_over`, which `agents.drive` learns of, and `exhausted`, which the
planner says.
"""

from __future__ import annotations

import time
from typing import Literal, TypeAlias

from agents.settings import Budgets
from agents.state import Spent, State

StopReason: TypeAlias = Literal[
    "iterations",
    "near_limit",
    "patience",
    "exhausted",
    "money",
    "tokens",
    "wall_time",
    "device_time",
    "user",
    "models_unavailable",
    "turn_over",
]

STOP_WORDS: dict[StopReason, str] = {
    "iterations": "the iteration limit was reached",
    "near_limit": "the best kernel is as near to the physical limit as asked for",
    "patience": "no gain in the last attempts",
    "exhausted": "the planner has nothing left to try",
    "money": "the money budget was spent",
    "tokens": "the token budget was spent",
    "wall_time": "the time budget was spent",
    "device_time": "the device time budget was spent",
    "user": "stopped by the user",
    "models_unavailable": "no model could be reached",
    "turn_over": "its turn in the batch is over; the batch goes on with it",
}


class Clock:
    """Seconds at work: those of earlier resumptions and those since this one began.

    A lap is one iteration. What models and the device took of it is told by `outside`; the rest is ours. Coders in
    parallel wait at the same time, so with several of them the rest is only a lower bound.
    """

    def __init__(self, before: float = 0.0) -> None:
        self._origin = time.monotonic() - before
        self.begin_lap()

    def begin_lap(self) -> None:
        self._lap, self._outside = time.monotonic(), 0.0

    def outside(self, seconds: float) -> None:
        """So much of this lap was a model's or the device's."""
        self._outside += seconds

    @property
    def lap_inside(self) -> float:
        """Seconds of this lap that were our own."""
        return max(0.0, time.monotonic() - self._lap - self._outside)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._origin


def out_of_budget(spent: Spent, elapsed: float, budgets: Budgets) -> StopReason | None:
    """The budget that is used up, if one is. Also asked within a turn, before each model call."""
    used: dict[StopReason, tuple[float, float | None]] = {
        "money": (spent["dollars"], budgets.dollars),
        "tokens": (spent["input_tokens"] + spent["output_tokens"], budgets.tokens),
        "wall_time": (elapsed, budgets.wall_time),
        "device_time": (spent["device_seconds"], budgets.device_time),
    }
    return next((reason for reason, (amount, bound) in used.items() if bound is not None and amount >= bound), None)


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
    if state["iteration"] >= budgets.iterations:
        return "iterations"
    if budgets.patience is not None and state["stale"] >= budgets.patience:
        return "patience"
    return None


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
