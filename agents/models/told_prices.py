"""What a call may cost at most of a model whose price nobody listed, but whose provider says what each reply cost."""

from __future__ import annotations

from agents.models.base import Usage

ANYTHING = 1e9
"""US dollars; beyond any limit. Set aside for a model's first call, it lets no other call go beside it."""
CACHE_WRITE = 2.0
"""How much dearer than other input an input may be that is written to a cache: Anthropic's longest retention, the
dearest that is known (2026-11-30)."""


class ToldPrices:
    """By model, as it is named. A reply's dollars bound the price of its input tokens, as if the output had been free,
    and that of its output tokens, as if the input had been; the smallest such bounds hold."""

    def __init__(self) -> None:
        self._bounds: dict[str, tuple[float, float] | None] = {}

    def hear(self, model: str, usage: Usage) -> None:
        """A reply of `model` came, before anybody but its provider put a price on it."""
        before = self._bounds.get(model)
        if usage.dollars is None:
            self._bounds.setdefault(model, None)
            return
        fresh = max(1, usage.input_tokens - usage.cached_tokens)
        now = (usage.dollars / fresh, usage.dollars / max(1, usage.output_tokens))
        self._bounds[model] = now if before is None else (min(before[0], now[0]), min(before[1], now[1]))

    def bound(self, model: str, prompt_tokens: int, reply_tokens: int) -> float:
        """US dollars; 0.0 for a model that is known to have no price."""
        if model not in self._bounds:
            return ANYTHING
        found = self._bounds[model]
        return 0.0 if found is None else CACHE_WRITE * found[0] * prompt_tokens + found[1] * reply_tokens
