"""How a run that is at a limit, or that was stopped, goes on, as a command; and why one would end at once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Final

from agents.limits import STOP_WORDS, StopReason
from agents.settings import Budgets
from agents.standing import Standing
from agents.steering_limits import LIMIT_OF
from app.quantities import money, percent, span, tokens
from memory.runs import RunFolder

_EXAMPLES: Final[Mapping[StopReason, str]] = {
    "iterations": "--iterations 400",
    "near_limit": "--near-limit 2",
    "patience": "--patience 80",
    "money": "--max-dollars 20",
    "tokens": "--max-tokens 5000000",
    "wall_time": "--wall-time 8h",
    "device_time": "--device-time 2h",
}
RAISES: Final[Mapping[StopReason, tuple[str, str]]] = {
    reason: (LIMIT_OF[reason], example) for reason, example in _EXAMPLES.items()
}
"""Reasons to end that a larger budget takes away: the budget, and how to give one."""


def how_to_go_on(run: RunFolder, reason: StopReason) -> str:
    """The command that lifts the limit, with an amount for an example."""
    return f"warpsmith resume {shlex.quote(str(run.path))} {RAISES[reason][1]}"


_USED: Final[Mapping[StopReason, Callable[[Standing, Budgets], str]]] = {
    "iterations": lambda s, b: f"{_counted(s.iterations, 'iteration')} done, and the limit is {b.iterations}",
    "near_limit": lambda s, b: (
        f"its best kernel is at {percent(s.share_of_limit)} of the physical limit, and "
        f"{percent(1 - (b.near_limit or 0))} is enough"
    ),
    "patience": lambda s, b: f"{s.stale} attempts in a row without a gain, and the limit is {b.patience}",
    "money": lambda s, b: f"{money(s.spent['dollars'])} was spent, and the limit is {money(b.dollars)}",
    "tokens": lambda s, b: (
        f"{tokens(s.spent['input_tokens'] + s.spent['output_tokens'])} tokens were used, and the limit is "
        f"{tokens(b.tokens or 0)}"
    ),
    "wall_time": lambda s, b: f"it worked for {span(s.elapsed)}, and the limit is {span(b.wall_time)}",
    "device_time": lambda s, b: (
        f"the device was used for {span(s.spent['device_seconds'])}, and the limit is {span(b.device_time)}"
    ),
}


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun} is" if number == 1 else f"{number} {noun}s are"


def used_up(reason: StopReason, standing: Standing, budgets: Budgets) -> str:
    """What was used of the limit that a run is at."""
    words = _USED.get(reason)
    return words(standing, budgets) if words is not None else STOP_WORDS[reason]
