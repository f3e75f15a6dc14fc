"""What models did and what that cost, as a report shows it."""

from __future__ import annotations

from app import quantities
from app.plot_frame import pictures
from app.plots import bars
from app.spending import Round, Spending
from memory.runs import RunFolder


def spending_fields(run: RunFolder, spending: Spending) -> dict[str, object]:
    """What the template shows of it."""
    several = len(spending.rows) > 1
    told = [(str(r.iteration), r, f"iteration {r.iteration}: {_round_words(r)}") for r in spending.rounds]
    dollars = [(name, r.dollars, tip) for name, r, tip in told]
    tokens = [(name, r.tokens, tip) for name, r, tip in told]
    return {
        "spending": spending,
        "spending_rows": [*spending.rows, *([spending.total] if several else [])],
        "corrections": quantities.tally(spending.corrections),
        "budget_words": budget_words(run),
        "money": pictures(lambda frame: bars(frame, dollars, "US dollars", "iteration")),
        "token_bars": pictures(
            lambda frame: bars(
                frame,
                tokens,
                "tokens, in and out",
                "iteration",
                lambda height: quantities.tokens(round(height)),
            )
        ),
    }


def _round_words(spent: Round) -> str:
    return f"{quantities.cost(spent.dollars, spent.unpriced_tokens)}, {quantities.tokens(spent.tokens)} tokens"


def budget_words(run: RunFolder) -> str:
    """The run's limits of money and tokens as a sentence; empty when it has none."""
    settings = run.config().get("settings")
    budgets = settings.get("budgets") if isinstance(settings, dict) else None
    found = budgets if isinstance(budgets, dict) else {}
    dollars, most = found.get("dollars"), found.get("tokens")
    parts = [quantities.money(dollars)] if isinstance(dollars, int | float) else []
    parts += [f"{quantities.count(most)} tokens"] if isinstance(most, int) else []
    return f"The budget was {' and '.join(parts)}." if parts else ""
