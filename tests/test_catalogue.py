from __future__ import annotations

import re

import pytest

from agents.models.base import Usage
from agents.models.catalogue import Catalogue, LongPrompt, ModelFacts, Price

KNOWN = Catalogue.with_prices()
PRICE = Price(input=2.0, cached=0.5, cache_write=3.0, output=10.0, date="2026-11-30")


@pytest.mark.parametrize("name", KNOWN.names)
def test_each_price_has_a_date_a_source_and_a_sane_order(name: str) -> None:
    price = KNOWN.of(name).price
    assert price is not None and price.source.startswith("https://")
    assert re.fullmatch(r"202\d-\d\d-\d\d", price.date)
    assert 0 < price.input < price.output
    assert price.cached is None or 0 < price.cached < price.input
    assert price.cache_write is None or price.cache_write >= price.input
    assert price.long is None or (price.long.input > price.input and price.long.output > price.output)


@pytest.mark.parametrize(
    "spec",
    [
        "anthropic:claude-haiku-4-5",
        "anthropic:claude-haiku-4-5@high",
        "anthropic:claude-haiku-4-5-20251001",
        "anthropic:claude-haiku-4-5-20251001@max",
    ],
)
def test_a_snapshot_and_an_effort_are_the_same_model(spec: str) -> None:
    assert KNOWN.of(spec).window == 200_000


@pytest.mark.parametrize("spec", ["anthropic:claude-haiku-4", "openai:gpt-5.5-pro", "local:qwen3", "nonsense", ""])
def test_what_is_not_listed_is_unknown(spec: str) -> None:
    assert KNOWN.of(spec) == ModelFacts()


def test_a_persons_price_goes_over_the_table_and_keeps_the_window() -> None:
    mine = Catalogue.with_prices({"anthropic:claude-haiku-4-5": PRICE, "local:qwen3": PRICE})
    assert mine.of("anthropic:claude-haiku-4-5") == ModelFacts(window=200_000, output=64_000, price=PRICE)
    assert mine.of("local:qwen3@low").price == PRICE
    assert KNOWN.of("local:qwen3").price is None


def test_each_kind_of_token_is_paid_at_its_own_rate_once() -> None:
    usage = Usage(
        input_tokens=1_000_000,
        cached_tokens=600_000,
        cache_write_tokens=300_000,
        output_tokens=100_000,
        reasoning_tokens=90_000,
    )
    assert PRICE.of(usage) == pytest.approx(0.1 * 2.0 + 0.6 * 0.5 + 0.3 * 3.0 + 0.1 * 10.0)


def test_rates_that_are_not_known_are_the_inputs() -> None:
    plain = Price(input=2.0, output=10.0, date="2026-11-30")
    assert plain.of(Usage(input_tokens=1_000_000, cached_tokens=400_000, cache_write_tokens=100_000)) == 2.0


def test_a_long_prompt_makes_the_whole_request_dearer() -> None:
    tiered = PRICE.model_copy(update={"long": LongPrompt(above=1000, input=4.0, output=15.0)})
    assert tiered.of(Usage(input_tokens=1000, output_tokens=10)) == pytest.approx((1000 * 2 + 10 * 10) / 1e6)
    assert tiered.of(Usage(input_tokens=1001, output_tokens=10)) == pytest.approx((1001 * 4 + 10 * 15) / 1e6)


@pytest.mark.parametrize("cached", [0, 400])
@pytest.mark.parametrize("written", [0, 500])
def test_a_bound_is_never_below_what_the_call_costs(cached: int, written: int) -> None:
    usage = Usage(input_tokens=1000, cached_tokens=cached, cache_write_tokens=written, output_tokens=50)
    assert PRICE.bound(1000, 50) >= PRICE.of(usage)
