"""What is known of models without asking their provider: window, longest reply, price and the date of the price.

The table is `catalogue.toml` beside this file; a person's own prices go over it. What it does not hold is unknown: a
price of None stops nothing, and a window of None is the adapter's to find out. Not covered: batch, priority and
regional prices.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from agents.models.base import Usage

MTOK = 1_000_000
_TABLE = Path(__file__).with_name("catalogue.toml")
_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")
_EFFORT = re.compile(r"@[a-z]+$")


class Rates(BaseModel):
    """US dollars for a million tokens.

    cached: prompt tokens read from the provider's cache, cache_write: those written to it; at `input`'s price when left
    out, which is never too little for the first and may be for the second.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)

    def dollars(self, usage: Usage) -> float:
        """What `usage` costs. Reasoning is paid as output, of which it is a part."""
        cached, written = usage.cached_tokens, usage.cache_write_tokens
        fresh = max(0, usage.input_tokens - cached - written)
        return (
            fresh * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + usage.output_tokens * self.output
        ) / MTOK

    def at_most(self, prompt_tokens: int, reply_tokens: int) -> float:
        """What a call may cost that sends and gets so much."""
        dearest = max(self.input, self.cache_write or 0.0)
        return (prompt_tokens * dearest + reply_tokens * self.output) / MTOK


class LongPrompt(Rates):
    """The rates of a whole request whose prompt holds more than `above` tokens."""

    above: int = Field(ge=1)


class Price(Rates):
    """What a model costs, from when that is known, and where it was read."""

    date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    source: str = ""
    long: LongPrompt | None = None

    def of(self, usage: Usage) -> float:
        """US dollars of one reply."""
        return self._rates(usage.input_tokens).dollars(usage)

    def bound(self, prompt_tokens: int, reply_tokens: int) -> float:
        """An upper bound in US dollars of one reply, from upper bounds in tokens."""
        return self._rates(prompt_tokens).at_most(prompt_tokens, reply_tokens)

    def _rates(self, prompt_tokens: int) -> Rates:
        return self.long if self.long is not None and prompt_tokens > self.long.above else self


class ModelFacts(BaseModel):
    """`window`: tokens of prompt and reply together; `output`: the most tokens of one reply. None: not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    window: int | None = Field(default=None, ge=1)
    output: int | None = Field(default=None, ge=1)
    price: Price | None = None


class Catalogue:
    """Facts by `provider:model`. A dated snapshot (`…-20251001`, `…-2026-03-17`) is what it is a snapshot of."""

    def __init__(self, models: Mapping[str, ModelFacts]) -> None:
        self._models = dict(models)

    @classmethod
    def with_prices(cls, prices: Mapping[str, Price] | None = None) -> Catalogue:
        """The table, with a person's own `prices` (by `provider:model`) over it."""
        models = _table()
        for name, price in (prices or {}).items():
            models[name] = models.get(name, ModelFacts()).model_copy(update={"price": price})
        return cls(models)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._models)

    def of(self, spec: str) -> ModelFacts:
        """What is known of the model that `spec` names, as `provider:model[@effort]`; nothing of one not listed."""
        plain = _EFFORT.sub("", spec)
        for name in (spec, plain, _SNAPSHOT.sub("", plain)):
            if name in self._models:
                return self._models[name]
        return ModelFacts()


@lru_cache(maxsize=1)
def _text() -> str:
    return _TABLE.read_text(encoding="utf-8")


def _table() -> dict[str, ModelFacts]:
    return {name: ModelFacts.model_validate(facts) for name, facts in tomllib.loads(_text())["models"].items()}
