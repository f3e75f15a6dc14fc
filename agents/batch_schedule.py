"""Whose turn is next in a batch: a pure function of how far each task is from its limit and how fast it gets nearer.

A turn is a few iterations. What it is expected to gain is

    headroom x rate x iterations        headroom = ln(best time / limit time), rate = share of it closed an iteration

in natural logarithms of time, so that twice as fast counts the same on every task. `rate` is a moving average of what
the last iterations closed; it begins with a hopeful value, so that nobody is written off unseen.

Two rules stand above the gain: every task has its first turn before any has its second, and nobody waits longer than
`STARVING` turns for each task in the game; with n tasks no wait is longer than (STARVING + 1) x n turns.

Not here: budgets, retries, and which tasks are over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

STARVING = 4
"""Turns of others for each task in the game, after which a task goes first whatever it promises."""
FIRST_RATE = 0.1
"""What a task is expected to close of its headroom in an iteration before it has shown anything."""
WEIGHT_OF_NEWEST = 0.25
"""Of the newest iteration in the moving average: after eight without a gain a tenth of the rate is left."""
UNKNOWN_HEADROOM = math.log(10)
"""Of a task without an accepted kernel: it is taken to be ten times its limit."""


@dataclass(frozen=True)
class Standing:
    """What the choice looks at of one task that could have a turn now."""

    key: str
    turns: int
    """Begun so far."""
    waited: int
    """Turns that others were given since its last one ended."""
    share_of_limit: float | None
    """The best kernel's; None while none was accepted."""
    rate: float


def headroom(share_of_limit: float | None) -> float:
    """ln(best time / limit time), never below 0."""
    return UNKNOWN_HEADROOM if share_of_limit is None else max(0.0, -math.log(share_of_limit))


def rate_after(rate: float, before: float | None, after: float | None) -> float:
    """The moving average after one more iteration. before, after: share of the limit around it."""
    was, now = headroom(before), headroom(after)
    closed = 0.0 if was == 0 else min(1.0, max(0.0, (was - now) / was))
    return rate + WEIGHT_OF_NEWEST * (closed - rate)


def expected_gain(standing: Standing) -> float:
    """What an iteration is expected to gain, as a natural logarithm of time."""
    return headroom(standing.share_of_limit) * standing.rate


def choose(standings: Sequence[Standing], rivals: int) -> str | None:
    """The task whose turn is next; None when none could have one.

    standings: in the order of the queue. rivals: tasks in the game, those that have a turn now among them.
    """
    fresh = [standing for standing in standings if standing.turns == 0]
    if fresh:
        return fresh[0].key
    starving = [standing for standing in standings if standing.waited >= STARVING * rivals]
    if starving:
        return max(starving, key=lambda standing: standing.waited).key
    best = max(standings, key=lambda standing: (expected_gain(standing), standing.waited), default=None)
    return None if best is None else best.key
