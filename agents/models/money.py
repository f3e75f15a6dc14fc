"""Money and tokens: what each call may still cost.

A call is let go only while the sum of what was spent and of what calls in flight may cost at most lies below the
limit. So a limit is overshot by less than one call, however many coders work in parallel; near the limit they wait for
each other. What was spent is read from the run's events, where each call is written down once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol

from agents.limits import StopReason
from agents.models.base import ChatModel, Dialect, ModelError, OnText, Reply, Request, Usage
from agents.models.catalogue import Price
from agents.models.costs import cost_of
from agents.models.told_prices import ToldPrices
from agents.secrets import Scrubber
from agents.state import NOTHING_SPENT, Spent, added
from memory.tokens import TokenCounter

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
        self._watching: list[Callable[[], None]] = []

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
        for on_paid in [*self._watching]:
            on_paid()

    @contextmanager
    def watched(self, on_paid: Callable[[], None]) -> Iterator[None]:
        """Calls `on_paid` as soon as any call was paid: those that waited for it go on, and pay too, a moment later."""
        self._watching.append(on_paid)
        try:
            yield
        finally:
            self._watching.remove(on_paid)

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
