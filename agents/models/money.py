"""Money and tokens: what each call may still cost, what it did cost, and who spent it on what.

A call is let go only while the sum of what was spent and of what calls in flight may cost at most lies below the
limit. So a limit is overshot by less than one call, however many coders work in parallel; near the limit they wait for
each other. What was spent is read from the run's events, where each call is written down once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict

from agents.limits import StopReason
from agents.models.base import ChatModel, Dialect, ModelError, OnText, Reply, Request, Usage
from agents.models.catalogue import Price
from agents.models.told_prices import ToldPrices
from agents.secrets import Scrubber
from agents.state import NOTHING_SPENT, Spent, added
from memory.runs import RunFolder
from memory.tokens import TokenCounter

PAID_EVENTS = ("model_called", "model_retried", "model_failed")
"""Events that bear what a call cost: it went well, failed and was tried again, or failed for good."""
_OVERHEAD = 16
"""Tokens that a provider adds for each message or tool, at most."""


class BudgetSpent(Exception):
    """Nothing is left to pay a call from. `reason` is a stop reason."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(f"no {reason} left")
        self.reason: StopReason = reason


class CommonPurse(Protocol):
    """What several runs pay from together, beside each one's own limits."""

    @property
    def over(self) -> StopReason | None:
        """Why nothing more is to be begun, once that is so."""
        ...

    def holding(self, dollars: float, tokens: int) -> AbstractAsyncContextManager[None]:
        """As `Purse.holding`."""
        ...

    def pay(self, usage: Usage) -> None:
        """As `Purse.pay`; called while the call's share is held."""
        ...


class Purse:
    """A run's money and tokens. Belongs to one event loop."""

    def __init__(
        self,
        dollars: float | None,
        tokens: int | None,
        spent: Spent = NOTHING_SPENT,
        common: CommonPurse | None = None,
    ) -> None:
        """dollars, tokens: the limits; None is no limit. spent: in earlier resumptions of the run. common: is asked
        too, for every call."""
        self._limits = (dollars, tokens)
        self.spent = spent
        self.told = ToldPrices()
        """What is known of models without a listed price."""
        self._common = common
        self._held: list[tuple[float, int]] = []
        self._settled = asyncio.Event()

    @property
    def common_over(self) -> StopReason | None:
        """Why the runs that pay together are to end, once that is so."""
        return None if self._common is None else self._common.over

    @property
    def is_shared(self) -> bool:
        """Whether other runs pay from the same purse."""
        return self._common is not None

    def limit(self, dollars: float | None, tokens: int | None) -> None:
        """From now on these are the limits."""
        self._limits = (dollars, tokens)
        self._settled.set()

    def spent_with(self, device_seconds: float) -> Spent:
        """What models cost, and so many seconds on the device."""
        return Spent(**self.spent | {"device_seconds": device_seconds})

    @asynccontextmanager
    async def holding(self, dollars: float, tokens: int) -> AsyncIterator[None]:
        """Keeps back what one call may cost at most. Waits while only calls in flight stand in its way; raises
        BudgetSpent when a limit is reached."""
        while self._short(sum(held[0] for held in self._held), sum(held[1] for held in self._held)):
            if short := self._short(0.0, 0):
                raise BudgetSpent(short)
            self._settled.clear()
            await self._settled.wait()
        held = (dollars, tokens)
        self._held.append(held)
        try:
            async with nullcontext() if self._common is None else self._common.holding(dollars, tokens):
                yield
        finally:
            self._held.remove(held)
            self._settled.set()

    def pay(self, usage: Usage) -> None:
        """Book what a call did cost."""
        self.spent = added(self.spent, cost_of(usage))
        if self._common is not None:
            self._common.pay(usage)

    def _short(self, held_dollars: float, held_tokens: int) -> Literal["money", "tokens"] | None:
        dollars, tokens = self._limits
        if dollars is not None and self.spent["dollars"] + held_dollars >= dollars:
            return "money"
        if tokens is not None and self.spent["input_tokens"] + self.spent["output_tokens"] + held_tokens >= tokens:
            return "tokens"
        return None


@dataclass(frozen=True)
class Paid:
    """A model whose every call is paid from a purse, and whose replies and errors hold none of the run's keys."""

    model: ChatModel
    price: Price | None
    purse: Purse
    counter: TokenCounter
    scrubber: Scrubber

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def window(self) -> int:
        return self.model.window

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        return self.model.dialects

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        """As the model's, with its cost in dollars where the price is known. Raises BudgetSpent too."""
        prompt = prompt_tokens(request, self.counter)
        dollars = self._bound(prompt, request.reply_tokens)
        async with self.purse.holding(dollars, prompt + request.reply_tokens):
            try:
                reply = await self.model.reply(request, on_text)
            except ModelError as error:
                if error.usage is not None:
                    error.usage = self._priced(error.usage)
                    self.purse.pay(error.usage)
                self.scrubber.error(error)
                raise
            except BaseException as error:
                self.scrubber.error(error)
                raise
            if self.price is None:
                self.purse.told.hear(self.name, reply.usage)
            usage = self._priced(reply.usage)
            self.purse.pay(usage)
        return _without_keys(reply.model_copy(update={"usage": usage}), self.scrubber)

    async def aclose(self) -> None:
        await self.model.aclose()

    def _bound(self, prompt_tokens: int, reply_tokens: int) -> float:
        """US dollars that a call may cost at most."""
        if self.price is not None:
            return self.price.bound(prompt_tokens, reply_tokens)
        return self.purse.told.bound(self.name, prompt_tokens, reply_tokens)

    def _priced(self, usage: Usage) -> Usage:
        """A provider that says the price itself knows best."""
        if usage.dollars is not None or self.price is None:
            return usage
        return usage.model_copy(update={"dollars": self.price.of(usage)})


def cost_of(usage: Usage) -> Spent:
    """One call's usage as spent."""
    total = usage.input_tokens + usage.output_tokens
    return Spent(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        unpriced_tokens=total if usage.dollars is None else 0,
        dollars=usage.dollars or 0.0,
        device_seconds=0.0,
    )


def spent_so_far(events: Iterable[Mapping[str, Any]]) -> Spent:
    """What the models cost that these event lines tell of."""
    spent = NOTHING_SPENT
    for event in events:
        if event["event"] in PAID_EVENTS:
            spent = added(spent, cost_of(_usage(event)))
    return spent


class PaidReply(NamedTuple):
    """A reply that was paid for: its blob, and the model that gave it."""

    blob: str
    model: str


class Answered:
    """Replies that event lines tell of, by call."""

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        self._replies = {
            str(event["call"]): PaidReply(str(event["reply"]), str(event["model"]))
            for event in events
            if event["event"] == "model_called" and "call" in event
        }
        self._told = {(event["event"], event["call"]) for event in events if "call" in event}
        self._models = {reply.model for reply in self._replies.values()}

    def knows(self, model: str) -> bool:
        """Whether that model replied before, in this process or an earlier one."""
        return model in self._models

    def heard(self, model: str) -> None:
        """It replied."""
        self._models.add(model)

    def find(self, call: str) -> PaidReply | None:
        """The reply that this very call got before, if it did."""
        return self._replies.get(call)

    def is_new(self, event: str, call: str) -> bool:
        """Whether no earlier process told that event of that call."""
        return (event, call) not in self._told


class LedgerRow(BaseModel):
    """What one model cost in one role and iteration. `calls` went well, `failed` did not; both are paid where the
    provider says so. `dollars` is None while no price is known, and lacks the `unpriced_tokens`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: str
    model: str
    iteration: int
    calls: int
    failed: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    unpriced_tokens: int
    dollars: float | None


def ledger(run: RunFolder) -> list[LedgerRow]:
    """The run's calls by iteration, role and model, in the order in which they began."""
    return ledger_of(run.events())


def ledger_of(events: Iterable[Mapping[str, Any]]) -> list[LedgerRow]:
    """The same of events that were read already."""
    rows: dict[tuple[int, str, str], list[Mapping[str, Any]]] = {}
    for event in events:
        if event["event"] in PAID_EVENTS:
            key = (int(str(event.get("iteration", 0))), str(event["role"]), str(event["model"]))
            rows.setdefault(key, []).append(event)
    return [_row(*key, events) for key, events in rows.items()]


def _row(iteration: int, role: str, model: str, events: list[Mapping[str, Any]]) -> LedgerRow:
    spent = spent_so_far(events)
    tokens = spent["input_tokens"] + spent["output_tokens"]
    calls = sum(event["event"] == "model_called" for event in events)
    return LedgerRow(
        role=role,
        model=model,
        iteration=iteration,
        calls=calls,
        failed=len(events) - calls,
        dollars=None if tokens and spent["unpriced_tokens"] == tokens else spent["dollars"],
        input_tokens=spent["input_tokens"],
        output_tokens=spent["output_tokens"],
        cached_tokens=spent["cached_tokens"],
        reasoning_tokens=spent["reasoning_tokens"],
        unpriced_tokens=spent["unpriced_tokens"],
    )


def _usage(event: Mapping[str, Any]) -> Usage:
    """A line's usage; one that has none cost nothing. Lines of older runs lack some of the fields."""
    return Usage.model_validate({name: event[name] for name in Usage.model_fields if name in event})


def prompt_tokens(request: Request, counter: TokenCounter) -> int:
    """The prompt's tokens by `counter`, with what providers add to each message and tool at most."""
    texts = [message.text for message in request.messages]
    texts += [call.name + call.arguments for message in request.messages for call in message.tool_calls]
    texts += [tool.model_dump_json() for tool in request.tools]
    opaque = [message.opaque.model_dump_json() for message in request.messages if message.opaque is not None]
    return sum(counter.count(text) + _OVERHEAD for text in (*texts, *opaque))


def _without_keys(reply: Reply, scrubber: Scrubber) -> Reply:
    """What a provider wants back unchanged is dropped as a whole when it holds a key."""
    opaque = reply.opaque
    if opaque is not None:
        written = opaque.model_dump_json()
        opaque = opaque if scrubber.known(written) == written else None
    calls = tuple(
        call.model_copy(update={"name": scrubber.known(call.name), "arguments": scrubber.known(call.arguments)})
        for call in reply.tool_calls
    )
    return reply.model_copy(update={"text": scrubber.known(reply.text), "tool_calls": calls, "opaque": opaque})
