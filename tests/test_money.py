"""The purse: no limit is overshot by more than one call, whatever coders do in parallel. And the ledger."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_model import ScriptedModel, says

from agents.models.base import Message, ModelError, Opaque, Reply, Request, ToolCall, Usage
from agents.models.catalogue import Price
from agents.models.costs import cost_of, ledger, spent_so_far
from agents.models.money import BudgetSpent, Paid, Purse, prompt_tokens
from agents.secrets import Scrubber
from agents.state import NOTHING_SPENT
from memory.runs import RunFolder
from memory.tokens import COUNTER

REQUEST = Request(messages=(Message(speaker="user", text="hello " * 100),), reply_tokens=1000)
PRICE = Price(input=1.0, output=2.0, date="2026-11-30")


def usage(tokens: int, dollars: float | None) -> Usage:
    return Usage(input_tokens=tokens, output_tokens=0, dollars=dollars)


@settings(max_examples=50, deadline=None)
@given(
    calls=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=12),
    limit=st.floats(0.1, 5),
)
def test_a_limit_is_overshot_by_less_than_one_call_however_calls_overlap(
    calls: list[tuple[float, float, int]], limit: float
) -> None:
    """Each call holds at most what it may cost, costs less, and takes some turns of the loop."""

    async def play() -> tuple[Purse, list[float]]:
        purse, refused = Purse(limit, None), []

        async def one(bound: float, share: float, turns: int) -> None:
            try:
                async with purse.holding(bound, 0):
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    purse.pay(usage(1, bound * share))
            except BudgetSpent:
                refused.append(purse.spent["dollars"])

        await asyncio.gather(*(one(*call) for call in calls))
        return purse, refused

    purse, refused = asyncio.run(play())
    largest = max(bound * share for bound, share, _ in calls)
    assert purse.spent["dollars"] < limit + largest
    assert all(spent >= limit for spent in refused), "nobody is sent away while there is money"


async def test_near_the_limit_calls_wait_for_each_other_and_go_on_with_what_is_left() -> None:
    purse, order = Purse(None, 100), list[str]()
    release = asyncio.Event()

    async def first() -> None:
        async with purse.holding(0, 100):
            order.append("first begins")
            await release.wait()
            purse.pay(usage(40, None))
            order.append("first ends")

    async def second() -> None:
        async with purse.holding(0, 100):
            order.append("second begins")
            purse.pay(usage(40, None))

    work = [asyncio.create_task(first()), asyncio.create_task(second())]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == ["first begins"]
    release.set()
    await asyncio.gather(*work)
    assert order == ["first begins", "first ends", "second begins"]
    with pytest.raises(AssertionError, match="in flight"):
        async with purse.holding(0, 30):
            raise AssertionError("in flight")
    async with purse.holding(0, 30):
        purse.pay(usage(20, None))
    with pytest.raises(BudgetSpent) as caught:
        async with purse.holding(0, 1):
            pass
    assert caught.value.reason == "tokens" and purse.spent["unpriced_tokens"] == 100


async def test_a_call_that_is_cancelled_gives_back_what_was_held() -> None:
    purse = Purse(1.0, None)
    started = asyncio.Event()

    async def hang() -> None:
        async with purse.holding(5.0, 0):
            started.set()
            await asyncio.Event().wait()

    work = asyncio.create_task(hang())
    await started.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    async with purse.holding(5.0, 0):
        purse.pay(usage(1, 0.5))
    assert purse.spent["dollars"] == 0.5


@pytest.mark.parametrize("told", [None, 0.4, 0.0])
@given(
    tokens=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=12),
    width=st.integers(2, 5),
)
@settings(max_examples=25, deadline=None)
def test_a_limit_holds_for_a_price_that_only_the_provider_tells(
    told: float | None, tokens: list[tuple[int, int, int]], width: int
) -> None:
    """Dollars a token out, a quarter of it a token in, twice that for one written to a cache, nothing for one read."""
    purse, dearest = Purse(1.0, None), 0.0

    class Slow:
        name, window, dialects = "gateway:m", 1_000, ()

        async def reply(self, request: Request, on_text: object = None) -> Reply:  # noqa: ARG002
            nonlocal dearest
            fresh, read, out = tokens[int(request.messages[0].text.split()[0]) % len(tokens)]
            await asyncio.sleep(0)
            cost = None if told is None else told * (out + (fresh % 2 + 1) * fresh / 4) / 100
            dearest = max(dearest, cost or 0.0)
            return Reply(usage=Usage(input_tokens=fresh + read, cached_tokens=read, output_tokens=out, dollars=cost))

        async def aclose(self) -> None: ...

    async def coder(model: Paid, number: int) -> None:
        for i in range(6):
            request = Request(messages=(Message(speaker="user", text=f"{number + i}" + " a" * 90),), reply_tokens=40)
            await model.reply(request)

    async def all_at_once() -> list[BaseException | None]:
        model = Paid(Slow(), None, purse, COUNTER, Scrubber())  # type: ignore[arg-type]
        return await asyncio.gather(*(coder(model, n) for n in range(width)), return_exceptions=True)

    ended = asyncio.run(all_at_once())
    assert purse.spent["dollars"] < 1.0 + dearest or purse.spent["dollars"] == 0.0
    assert all(each is None or isinstance(each, BudgetSpent) for each in ended)
    if not told:
        assert ended == [None] * width, "an unknown price stops nothing"


async def test_calls_go_side_by_side_once_it_is_known_that_nobody_tells_a_price() -> None:
    for told in (None, 0.0):
        purse = Purse(1.0, None)
        purse.told.hear("local:m", usage(10, told))
        assert purse.told.bound("local:m", 10**6, 10**6) == 0.0
    assert Purse(1.0, None).told.bound("local:m", 1, 1) > 10**6


async def test_spent_in_earlier_resumptions_counts() -> None:
    purse = Purse(1.0, None, cost_of(usage(10, 1.0)))
    with pytest.raises(BudgetSpent) as caught:
        async with purse.holding(0.0, 0):
            pass
    assert caught.value.reason == "money"


async def test_an_unknown_price_stops_nothing_and_its_tokens_are_counted() -> None:
    purse = Purse(0.01, None)
    model = Paid(ScriptedModel([says("hi", input_tokens=10**9)]), None, purse, COUNTER, Scrubber())
    reply = await model.reply(REQUEST)
    assert reply.usage.dollars is None
    assert (purse.spent["dollars"], purse.spent["unpriced_tokens"]) == (0.0, 10**9)


async def test_a_reply_is_priced_by_the_table_unless_the_provider_says_the_price() -> None:
    purse = Purse(None, None)
    told = Reply(text="hi", usage=Usage(input_tokens=10, dollars=0.25))
    model = Paid(
        ScriptedModel([says("hi", input_tokens=1_000_000, output_tokens=500_000), told]),
        PRICE,
        purse,
        COUNTER,
        Scrubber(),
    )
    assert (await model.reply(REQUEST)).usage.dollars == 2.0
    assert (await model.reply(REQUEST)).usage.dollars == 0.25
    assert purse.spent["dollars"] == 2.25


async def test_a_failed_attempt_is_paid_where_the_provider_says_so() -> None:
    purse = Purse(None, None)

    def broken(_: Any) -> Reply:
        raise ModelError("transient", "broke off", usage=Usage(input_tokens=1_000_000))

    model = Paid(ScriptedModel([broken]), PRICE, purse, COUNTER, Scrubber())
    with pytest.raises(ModelError) as caught:
        await model.reply(REQUEST)
    assert caught.value.usage is not None and caught.value.usage.dollars == 1.0 == purse.spent["dollars"]


async def test_a_reply_holds_no_key_and_opaque_parts_with_one_are_dropped() -> None:
    key = "planted-key-0123456789"
    call = ToolCall(id="c", name="run", arguments=f'{{"x": "{key}"}}')
    leaky = Reply(text=f"the key is {key}", tool_calls=(call,), opaque=Opaque(owner="x", items=({"t": key},)))
    clean = leaky.model_copy(update={"opaque": Opaque(owner="x", items=({"t": "fine"},))})
    model = Paid(ScriptedModel([leaky, clean]), None, Purse(None, None), COUNTER, Scrubber([key]))
    first, second = await model.reply(REQUEST), await model.reply(REQUEST)
    assert key not in first.model_dump_json() and first.opaque is None and "[secret]" in first.text
    assert second.opaque == clean.opaque


def test_a_prompts_bound_counts_texts_calls_results_and_manuals() -> None:
    bare = prompt_tokens(REQUEST, COUNTER)
    call = ToolCall(id="c", name="run", arguments="word " * 50)
    longer = REQUEST.model_copy(
        update={"messages": (*REQUEST.messages, Message(speaker="assistant", text="", tool_calls=(call,)))}
    )
    assert bare >= 100 and prompt_tokens(longer, COUNTER) >= bare + 50


def lines(run: RunFolder, *told: dict[str, Any]) -> None:
    """Write event lines as a run does, as far as the books look at them."""
    with (run.path / "events.jsonl").open("a") as file:
        file.writelines(json.dumps({"role": "coder", "model": "a:b", "iteration": 1} | line) + "\n" for line in told)


def test_the_ledger_is_the_sum_of_what_the_events_say(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "t", {})
    called = {"event": "model_called", "output_tokens": 1}
    full = called | {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 50, "reasoning_tokens": 5}
    lines(
        run,
        full | {"dollars": 0.5},
        {"event": "model_retried", "fault": "transient", "input_tokens": 7, "output_tokens": 0, "dollars": 0.1},
        {"event": "model_failed", "fault": "refusal"},
        called | {"model": "c:d", "input_tokens": 3, "dollars": None},
        called | {"iteration": 2, "role": "planner", "input_tokens": 1, "dollars": 0.25},
        {"event": "tool_called", "tool": "run", "ok": True, "error": None, "seconds": 1.0},
    )
    rows = ledger(run)
    assert [(r.iteration, r.role, r.model, r.calls, r.failed) for r in rows] == [
        (1, "coder", "a:b", 1, 2),
        (1, "coder", "c:d", 1, 0),
        (2, "planner", "a:b", 1, 0),
    ]
    first, unpriced, _ = rows
    assert (first.input_tokens, first.cached_tokens, first.reasoning_tokens) == (107, 50, 5)
    assert first.dollars == pytest.approx(0.6)
    assert (unpriced.dollars, unpriced.unpriced_tokens) == (None, 4)
    total = spent_so_far(run.events())
    assert total["input_tokens"] == sum(r.input_tokens for r in rows) == 111
    assert total["dollars"] == pytest.approx(0.85) and total["unpriced_tokens"] == 4


def test_an_older_runs_events_can_be_added_up(tmp_path: Path) -> None:
    """Before there was an iteration, a call or a price."""
    run = RunFolder.create(tmp_path, "t", {})
    old = {"event": "model_called", "role": "planner", "model": "builtin:autotune"}
    cost = {"input_tokens": 0, "output_tokens": 0, "dollars": 0.0}
    (run.path / "events.jsonl").write_text(json.dumps(old | cost) + "\n")
    (row,) = ledger(run)
    assert (row.iteration, row.calls, row.dollars) == (0, 1, 0.0)
    assert spent_so_far(run.events()) == NOTHING_SPENT


def test_the_order_of_payments_does_not_matter() -> None:
    costs = [usage(i, i / 8) for i in range(20)]
    sums = []
    for seed in range(3):
        purse = Purse(None, None)
        random.Random(seed).shuffle(costs)
        for cost in costs:
            purse.pay(cost)
        sums.append(purse.spent)
    assert sums[0] == sums[1] == sums[2]
