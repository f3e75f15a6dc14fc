"""Says, once for each budget, that it is nearly used up, and reminds the planner of it."""

from __future__ import annotations

from collections.abc import Sequence

from agents.context import Context
from agents.limits import Budget, Gauge, limits_of, nearly_used


def tell(found: Sequence[Gauge], iteration: int, context: Context) -> None:
    """Of those that are nearly used up and of which nobody told before. iteration: the one that goes on, or else the
    last one that was finished."""
    for gauge in nearly_used(found):
        if not context.told.told_low(gauge.budget, gauge.limit):
            context.journal.tell("budget_low", iteration=iteration, **gauge._asdict())
            context.told.note_low(iteration=iteration, **gauge._asdict())


def told_before(iteration: int, context: Context) -> list[Budget]:
    """Budgets that were nearly used up when that iteration began, as was told then."""
    limits = limits_of(context.settings.budgets)
    return [name for name, limit in limits.items() if limit and context.told.told_low(name, limit, before=iteration)]
