"""How much of a model's window a prompt may take, in tokens as that model counts them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agents.models.base import Message, Request, ToolSpec, Usage
from agents.models.spec import is_built_in
from agents.seat import Seat
from memory import compaction
from memory.compaction import Spoken
from memory.tokens import COUNTER, Corrected, TokenCounter
from memory.view import shorten

REPLY_SHARE = 4
"""A reply may take one part in so many of a small window."""
ANSWER_TOKENS = 8_000
"""The most that one tool's answer may take."""


@dataclass(frozen=True)
class Room:
    """What one prompt may hold. `budget` is tokens as the model counts them: messages without tools and reply."""

    budget: int
    window: int
    model: str
    factor: float
    """From our count to the model's."""
    tools: int
    """Tokens of the tools' manuals ..."""
    reply: int
    """... and of the reply, neither of them part of `budget`."""

    @property
    def counter(self) -> Corrected:
        return Corrected(COUNTER, self.factor)


def reply_room(seat: Seat, window: int, output: int | None = None) -> int:
    """Tokens that a reply may take: the setting, or what the model gives at most, or a share of a small window."""
    return min(seat.context.settings.reply_tokens, output or window, window // REPLY_SHARE)


def room_for(seat: Seat, specs: Sequence[ToolSpec], model: str, window: int, output: int | None = None) -> Room:
    """The smaller of the setting and the window, less the reply and the tools' manuals.

    What is built in reads for nothing and must see all of the ledger: only its window bounds it.
    """
    factor = seat.context.run.calibration.factor(seat.role, model, seat.iteration)
    tools = Corrected(COUNTER, factor).count("\n".join(spec.model_dump_json() for spec in specs))
    most = window if is_built_in(model) else min(seat.context.settings.context_tokens, window)
    reply = reply_room(seat, window, output)
    return Room(most - reply - tools, window, model, factor, tools, reply)


def bounded(seat: Seat, answer: str) -> str:
    """A tool's answer as a prompt can hold it; a longer one is kept whole in `evicted/`, and says so."""
    if COUNTER.count(answer) <= ANSWER_TOKENS:
        return answer
    where = seat.context.run.evicted.put(answer)
    return f"{shorten(answer, ANSWER_TOKENS, COUNTER)}\n(whole in {where})"


def observe(seat: Seat, request: Request, usage: Usage, model: str) -> None:
    """Learn from what `model` reported for `request` how far our count is from its own."""
    if usage.input_tokens == 0:
        return
    counted = sum(cost(message, COUNTER) for message in request.messages)
    counted += COUNTER.count("\n".join(spec.model_dump_json() for spec in request.tools))
    seat.context.run.calibration.observe(seat.role, model, seat.iteration, counted, usage.input_tokens)


def cost(message: Message, counter: TokenCounter) -> int:
    """Tokens of one message with all that goes along with it."""
    return compaction.cost(spoken(0, message), counter)


def spoken(key: int, message: Message) -> Spoken:
    """A message as far as its length goes."""
    attached = "" if message.opaque is None else json.dumps([*message.opaque.items])
    return Spoken(
        key=key,
        speaker="user" if message.speaker == "system" else message.speaker,
        text=message.text,
        arguments=tuple(call.arguments for call in message.tool_calls),
        names=tuple(call.name for call in message.tool_calls),
        attached=attached,
    )
