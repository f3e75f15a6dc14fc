"""What a run's model calls have cost so far, added up from its events while it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from app.quantities import money, percent, tokens

PAID = ("model_called", "model_retried", "model_failed")


@dataclass
class Bill:
    """Sums of all calls, failed ones included where the provider told their cost. A limit of None is no limit."""

    dollar_limit: float | None = None
    token_limit: int | None = None
    dollars: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    unpriced_tokens: int = 0

    def limits(self, budgets: JsonValue) -> None:
        """Take the limits from a run's budgets as an event tells them."""
        if isinstance(budgets, dict):
            dollars, most = budgets.get("dollars"), budgets.get("tokens")
            self.dollar_limit = float(dollars) if isinstance(dollars, int | float) else None
            self.token_limit = most if isinstance(most, int) else None

    def add(self, fields: Mapping[str, JsonValue]) -> None:
        """One call's cost as its event tells it."""
        sent, got = _whole(fields, "input_tokens"), _whole(fields, "output_tokens")
        self.input_tokens += sent
        self.output_tokens += got
        self.cached_tokens += _whole(fields, "cached_tokens")
        dollars = fields.get("dollars")
        if isinstance(dollars, int | float):
            self.dollars += dollars
        else:
            self.unpriced_tokens += sent + got

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __str__(self) -> str:
        """`$0.42 of $5.00, 182k tokens (61 % of the prompts cached)`; empty while nothing was paid."""
        if not self.tokens:
            return ""
        known = self.unpriced_tokens < self.tokens
        spent = money(self.dollars) if known else "price unknown"
        if self.dollar_limit is not None:
            spent += f" of {money(self.dollar_limit)}"
        if known and self.unpriced_tokens:
            spent += f" and {tokens(self.unpriced_tokens)} tokens at an unknown price"
        bound = f" of {tokens(self.token_limit)}" if self.token_limit is not None else ""
        share = self.cached_tokens / self.input_tokens if self.input_tokens else 0.0
        cached = f" ({percent(share)} of the prompts cached)" if self.cached_tokens else ""
        return f"{spent}, {tokens(self.tokens)}{bound} tokens{cached}"


def _whole(fields: Mapping[str, JsonValue], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def bill_of(events: Iterable[Mapping[str, JsonValue]]) -> Bill:
    """What a run's event lines say was paid."""
    bill = Bill()
    for line in events:
        if line.get("event") in PAID:
            bill.add(line)
    return bill
