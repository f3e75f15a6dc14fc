"""`warpsmith models test`: two small requests to a model, and what they showed to work.

The first asks for two calls of one tool, the second hands their results back. Retries and fallbacks are left out, so
that what is said is about this model alone. Not covered: whether its answers are any good.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from agents.models.base import ChatModel, Message, ModelError, Reply, Request, ToolCall, ToolSpec, Usage
from agents.models.catalogue import Price
from app.plain import one_line
from app.quantities import count

Works: TypeAlias = Literal["yes", "no", "unknown"]
REPLY_TOKENS = (2_000, 500)
"""Of the two replies: room for a model that thinks before it calls; the second may be cut off."""
SUMS = ((2, 3), (40, 17))
ADD = ToolSpec(
    name="add",
    description="Adds two whole numbers and returns their sum.",
    parameters={
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first number."},
            "b": {"type": "integer", "description": "The second number."},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
_ROWS = 72
"""Lines of the table in the prompt, about 1,500 tokens in all: OpenAI's caches begin at 1,024."""


class Check(BaseModel):
    """One thing looked at, and the sentence that says what was seen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["reachable", "tools", "parallel tools", "streaming", "usage", "caching", "window"]
    works: Works
    found: str


class Probe(BaseModel):
    """What a model was seen to do. `failure` is what ended the test early; the checks that it cut off are unknown.

    `usage` is the sum of both requests; `dollars` is None while the price is not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    checks: tuple[Check, ...]
    usage: Usage
    dollars: float | None
    seconds: float
    failure: str = ""
    advice: str = ""

    def works(self, name: str) -> Works:
        return next(check.works for check in self.checks if check.name == name)


AskWindow: TypeAlias = Callable[[], Awaitable[int | None]]
"""Asks a provider for a model's window, in tokens."""


async def probe(
    model: ChatModel, price: Price | None, timeout: float, *, known_window: int | None, ask_window: AskWindow | None
) -> Probe:
    """Ask `model` twice, within `timeout` seconds in all. Raises nothing that a model can cause.

    known_window: as set or as the catalogue has it. ask_window: None for a model that has no provider to ask.
    """
    began = time.monotonic()
    told: int | None = None
    replies: list[Reply] = []
    pieces: list[list[str]] = []
    failure: ModelError | None = None
    try:
        async with asyncio.timeout(timeout):
            told = await _told(ask_window)
            await _two_requests(model, replies, pieces)
    except ModelError as error:
        failure = error
    except TimeoutError:
        failure = ModelError("transient", f"no answer within {timeout:g} s", "Allow more with --timeout.")
    usage = _sum([reply.usage for reply in replies] + ([failure.usage] if failure and failure.usage else []))
    return Probe(
        model=model.name,
        checks=(*_checks(model, replies, pieces, failure), window_check(told, known_window, model.window)),
        usage=usage,
        dollars=price.of(usage) if price is not None else None,
        seconds=time.monotonic() - began,
        failure=failure.message if failure else "",
        advice=failure.advice if failure else "",
    )


async def _two_requests(model: ChatModel, replies: list[Reply], pieces: list[list[str]]) -> None:
    """Leaves each reply and the pieces that its text came in behind, also when the next request fails."""
    wanted = " and ".join(f"{a} + {b}" for a, b in SUMS)
    thread = [
        Message(speaker="system", text=f"You check a connection. You may ignore this table.\n\n{_table()}"),
        Message(speaker="user", text=f"Call the tool `add` twice in one reply, for {wanted}. Do not add yourself."),
    ]
    for reply_tokens in REPLY_TOKENS:
        heard: list[str] = []
        pieces.append(heard)
        request = Request(
            messages=tuple(thread), tools=(ADD,), reply_tokens=reply_tokens, cache_key="warpsmith-models-test"
        )
        reply = await model.reply(request, heard.append)
        replies.append(reply)
        if not reply.tool_calls or reply.stop == "length":
            return
        results = [
            Message(speaker="tool", text=_answer(call), call=call.id, failed=_numbers(call) is None, label=call.name)
            for call in reply.tool_calls
        ]
        thread += [
            reply.message,
            *results,
            Message(speaker="user", text="Say both sums in one sentence. Call nothing any more."),
        ]


def _checks(
    model: ChatModel, replies: Sequence[Reply], pieces: Sequence[Sequence[str]], failure: ModelError | None
) -> tuple[Check, ...]:
    """All but the window's."""
    if not replies:
        assert failure is not None
        answered = failure.fault in ("auth", "quota", "bad_request", "overflow", "refusal")
        text = "it answers, but with an error" if answered else "it gave no answer"
        unknown: Sequence[Check] = [
            Check(name=name, works="unknown", found="not tried")
            for name in ("tools", "parallel tools", "streaming", "usage", "caching")
        ]
        return (Check(name="reachable", works="yes" if answered else "no", found=text), *unknown)
    return (
        Check(name="reachable", works="yes", found=f"answered as {one_line(replies[0].model or model.name)}"),
        _tools(replies[0], replies[1:], failure),
        _parallel(replies[0]),
        _streaming(pieces),
        _usage(replies),
        _caching(replies),
    )


def _tools(first: Reply, second: Sequence[Reply], failure: ModelError | None) -> Check:
    good = [call for call in first.tool_calls if _numbers(call) is not None]
    how = "" if first.dialect == "native" else f" in the {first.dialect} dialect"
    if first.stop == "length":
        return Check(name="tools", works="no", found=f"its reply was cut off after {first.usage.output_tokens} tokens")
    if not first.tool_calls:
        said = one_line(first.text)[:80] or "nothing"
        return Check(name="tools", works="no", found=f"no call was made; it said: {said}")
    if len(good) < len(first.tool_calls):
        wrong = next(call for call in first.tool_calls if _numbers(call) is None)
        return Check(name="tools", works="no", found=f"called {one_line(f'{wrong.name}({wrong.arguments})')[:100]}")
    if failure is not None and not second:
        late = failure.fault == "transient"
        found = "no answer to its result came" if late else "its result was not taken"
        return Check(name="tools", works="yes" if late else "no", found=f"called `add`{how}, but {found}")
    return Check(name="tools", works="yes", found=f"called `add` as asked{how} and took the results")


def _parallel(first: Reply) -> Check:
    made = len(first.tool_calls)
    if made == 0:
        return Check(name="parallel tools", works="unknown", found="no call was made")
    if made == 1:
        return Check(name="parallel tools", works="no", found="made one call where two were asked for")
    return Check(name="parallel tools", works="yes", found=f"made {made} calls in one reply")


def _streaming(pieces: Sequence[Sequence[str]]) -> Check:
    most = max((len(heard) for heard in pieces), default=0)
    if most == 0:
        return Check(name="streaming", works="unknown", found="no text came, only calls")
    if most == 1:
        return Check(name="streaming", works="unknown", found="the text came in one piece; it was short")
    return Check(name="streaming", works="yes", found=f"text came in {most} pieces")


def _usage(replies: Sequence[Reply]) -> Check:
    usage = replies[0].usage
    if usage.estimated or not usage.input_tokens or not usage.output_tokens:
        return Check(name="usage", works="no", found="not reported: tokens are estimated, and budgets hold by estimate")
    return Check(
        name="usage",
        works="yes",
        found=f"reported {count(usage.input_tokens)} tokens in, {count(usage.output_tokens)} out for the first request",
    )


def _caching(replies: Sequence[Reply]) -> Check:
    read = next((reply.usage for reply in reversed(replies) if reply.usage.cached_tokens), None)
    if read is not None:
        share = f"{count(read.cached_tokens)} of {count(read.input_tokens)} tokens"
        return Check(name="caching", works="yes", found=f"{share} were read from the cache")
    if len(replies) < 2:
        return Check(name="caching", works="unknown", found="there was no second request with the same beginning")
    written = " though it was written to the cache" if replies[0].usage.cache_write_tokens else ""
    found = f"nothing was reported as cached{written}; some providers cache longer prompts only, or need a moment"
    return Check(name="caching", works="unknown", found=found)


def window_check(told: int | None, known: int | None, used: int) -> Check:
    """The window that the provider `told` against the one `known` here and the one that a run would use, in tokens."""
    if told is not None and known is not None and known > told:
        found = f"set to {count(known)} tokens, but the server says {count(told)}: set `window` to that"
        return Check(name="window", works="no", found=found)
    if told is not None and known is None:
        works: Works = "yes" if told >= used else "no"
        advice = "" if works == "yes" else f", and a run assumes {count(used)}: set `window` in warpsmith.toml"
        return Check(name="window", works=works, found=f"the server says {count(told)} tokens{advice}")
    if known is not None:
        also = {None: "; the server does not say", known: ", and the server says so too"}.get(
            told, f"; the server would allow {count(told)}"
        )
        return Check(name="window", works="yes", found=f"{count(known)} tokens as set or known{also}")
    found = f"nobody says how large it is; a run assumes {count(used)} tokens: set `window` in warpsmith.toml"
    return Check(name="window", works="unknown", found=found)


async def _told(ask_window: AskWindow | None) -> int | None:
    try:
        return None if ask_window is None else await ask_window()
    except ModelError:
        return None  # many servers have no list of models; that says nothing about the model


def _numbers(call: ToolCall) -> tuple[int, int] | None:
    """The arguments of a good call."""
    try:
        found = json.loads(call.arguments)
    except ValueError:
        return None
    if call.name != ADD.name or not isinstance(found, dict) or set(found) != {"a", "b"}:
        return None
    a, b = found["a"], found["b"]
    return (a, b) if type(a) is int and type(b) is int else None


def _answer(call: ToolCall) -> str:
    numbers = _numbers(call)
    return "wrong arguments: two whole numbers a and b are needed" if numbers is None else str(sum(numbers))


def _table() -> str:
    return "\n".join(f"line {n}: {n * n} squared, {n * 7 % 31} left over" for n in range(_ROWS))


def _sum(usages: Sequence[Usage]) -> Usage:
    fields = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
    return Usage(**{name: sum(getattr(usage, name) for usage in usages) for name in fields})
