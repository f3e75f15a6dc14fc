"""The one retry layer, on a clock of its own: what is tried again, how long it waits, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_model import says

from agents.models.base import Message, ModelError, ModelFault, ModelUnavailable, Reply, Request, Usage
from agents.models.retry import (
    FIRST_WAIT,
    JITTER,
    LONGEST_WAIT,
    RETRY_AFTER_CAP,
    Patience,
    Stopping,
    Tried,
    persist,
    wait_after,
)

REQUEST = Request(messages=(Message(speaker="user", text="hello"),))


@dataclass
class World:
    """A model that fails as told, and a clock that only waiting and asking move."""

    outcomes: list[Reply | ModelError]
    seconds: float = 900.0
    asking: float = 1.0
    now: float = 0.0
    waits: list[float] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    stopping: Stopping = field(default_factory=Stopping)
    asked: int = 0
    name: str = "test:model"
    window: int = 1000
    dialects: Sequence[str] = ()

    async def reply(self, request: Request, on_text: object = None) -> Reply:  # noqa: ARG002
        self.asked += 1
        self.now += self.asking
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, ModelError):
            raise outcome
        return outcome

    async def aclose(self) -> None:
        """Nothing is open."""

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    async def go(self) -> Reply:
        patience = Patience(self.seconds, self.stopping, self.sleep, lambda: self.now, lambda: 0.5)
        return await persist(self, REQUEST, None, patience, self.tried.append)  # type: ignore[arg-type]


def passing(retry_after: float | None = None, usage: Usage | None = None) -> ModelError:
    return ModelError("transient", "503", retry_after=retry_after, usage=usage)


async def test_what_may_pass_is_asked_again_and_each_attempt_is_told_with_its_cost() -> None:
    paid = Usage(input_tokens=7, output_tokens=1)
    world = World([passing(), passing(usage=paid), says("hello")])
    assert (await world.go()).text == "hello"
    assert [(t.attempt, t.seconds) for t in world.tried] == [(1, 1.0), (2, 1.0), (3, 1.0)]
    first, second, third = (t.outcome for t in world.tried)
    assert isinstance(first, ModelError) and first.usage is None
    assert isinstance(second, ModelError) and second.usage == paid
    assert isinstance(third, Reply)
    assert [t.wait for t in world.tried] == [*world.waits, None]


@pytest.mark.parametrize("fault", ["overflow", "refusal", "auth", "quota", "bad_request"])
async def test_what_will_not_pass_is_asked_once(fault: ModelFault) -> None:
    world = World([ModelError(fault, "no"), says("never")])
    with pytest.raises(ModelError, match="no") as caught:
        await world.go()
    assert caught.value.fault == fault and world.asked == 1 and world.waits == []
    assert [(t.attempt, t.wait) for t in world.tried] == [(1, None)]


@pytest.mark.parametrize(
    ("asked_for", "waited"),
    [(1.0, 1.5), (7.0, 7.5), (RETRY_AFTER_CAP, RETRY_AFTER_CAP + 0.5), (1e9, RETRY_AFTER_CAP + 0.5)],
)
async def test_retry_after_is_obeyed_up_to_a_cap(asked_for: float, waited: float) -> None:
    world = World([passing(asked_for), says("hello")])
    await world.go()
    assert world.waits == [waited]


@pytest.mark.parametrize("asked_for", [0.0, -3.0, -1e9, 0.02])
async def test_a_server_that_asks_for_no_wait_is_not_asked_without_end(asked_for: float) -> None:
    waits = []
    for retry_after in (asked_for, None):
        world = World([passing(retry_after)])
        with pytest.raises(ModelError, match="503"):
            await world.go()
        waits.append(world.waits)
    assert waits[0] == waits[1] and len(waits[0]) < 40


async def test_patience_bounds_the_sum_of_all_waiting() -> None:
    world = World([passing()], seconds=100.0)
    with pytest.raises(ModelError, match="503"):
        await world.go()
    assert world.now <= 100.0 + world.asking
    assert world.tried[-1].wait is None and all(t.wait is not None for t in world.tried[:-1])
    assert world.asked == len(world.tried) > 3


async def test_a_retry_after_beyond_the_patience_is_not_waited_for() -> None:
    world = World([passing(60.0), says("never")], seconds=59.0)
    with pytest.raises(ModelError):
        await world.go()
    assert world.waits == [] and world.asked == 1


async def test_without_patience_each_call_is_made_once() -> None:
    world = World([passing(), says("never")], seconds=0.0)
    with pytest.raises(ModelError):
        await world.go()
    assert world.asked == 1


async def test_a_stop_ends_the_wait_at_once() -> None:
    """With the real sleep of an hour, which only the stop can end."""
    stopping = Stopping()
    world = World([passing(RETRY_AFTER_CAP)])
    told: list[Tried] = []

    def tell(tried: Tried) -> None:
        told.append(tried)
        asyncio.get_running_loop().call_soon(stopping.set)

    with pytest.raises(ModelUnavailable, match="stopped while waiting for test:model"):
        await asyncio.wait_for(persist(world, REQUEST, None, Patience(900.0, stopping), tell), 20)  # type: ignore[arg-type]
    assert world.asked == 1 and len(told) == 1


async def test_once_stopped_nothing_is_waited_for() -> None:
    world = World([passing(), says("never")])
    world.stopping.set()
    with pytest.raises(ModelError):
        await world.go()
    assert world.waits == [] and world.asked == 1


async def test_cancelling_ends_the_wait() -> None:
    world = World([passing(RETRY_AFTER_CAP)])
    waiting = asyncio.Event()
    patience = Patience(900.0)
    work = asyncio.create_task(persist(world, REQUEST, None, patience, lambda _: waiting.set()))  # type: ignore[arg-type]
    await asyncio.wait_for(waiting.wait(), 20)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert world.asked == 1


@settings(max_examples=60)
@given(
    attempt=st.integers(1, 2000),
    chance=st.floats(0, 1),
    retry_after=st.none() | st.floats(-1e9, 1e9),
)
def test_a_wait_is_never_negative_never_beyond_the_cap_and_grows(
    attempt: int, chance: float, retry_after: float | None
) -> None:
    wait = wait_after(passing(retry_after), attempt, chance)
    assert 0 <= wait <= max(LONGEST_WAIT, RETRY_AFTER_CAP + JITTER)
    if retry_after is None:
        assert wait >= FIRST_WAIT / 2 and wait <= wait_after(passing(), attempt + 1, chance)
