"""A turn's messages, kept within what the role's model can be sent: its oldest tool results give way first."""

from __future__ import annotations

from collections.abc import Sequence

from agents.models.base import Message, ToolSpec
from agents.seat import Seat
from memory.tokens import ByteBound, TokenCounter
from memory.view import Section, fit

COUNTER: TokenCounter = ByteBound()
_MARK = "\x00"


def prompt_budget(seat: Seat) -> int:
    """Tokens that messages and tool manuals may take: the smaller of the setting and the window, less the reply."""
    settings = seat.context.settings
    return min(settings.context_tokens, seat.context.models[seat.role].window) - settings.reply_tokens


def within_window(thread: Sequence[Message], specs: Sequence[ToolSpec], seat: Seat) -> tuple[Message, ...]:
    """`thread`, its oldest tool results cut down first when it outgrows the budget."""
    budget = prompt_budget(seat) - sum(COUNTER.count(spec.model_dump_json()) for spec in specs)
    sections = [_as_section(message, str(i)) for i, message in enumerate(thread)]
    texts = {section.label: section.text for section in fit(sections, budget, COUNTER)}
    return tuple(_with_text(message, texts.get(str(i), "")) for i, message in enumerate(thread))


def _as_section(message: Message, label: str) -> Section:
    """A tool's result may shrink to its head; calls that carry whole files shrink after all results have."""
    if message.speaker == "tool" and len(message.text) > 400:
        note = f" … (result cut; {len(message.text)} characters, whole in the transcript)"
        return Section(label, message.text, (message.text[:300] + note,), keep=0)
    if message.tool_calls:
        arguments = "".join(call.arguments for call in message.tool_calls)
        return Section(label, message.text + _MARK + arguments, (message.text + _MARK,), keep=1)
    return Section(label, message.text, keep=2)


def _with_text(message: Message, text: str) -> Message:
    if not message.tool_calls:
        return message if text == message.text else message.model_copy(update={"text": text})
    said, _, arguments = text.partition(_MARK)
    if arguments:
        return message
    emptied = tuple(call.model_copy(update={"arguments": "{}"}) for call in message.tool_calls)
    return message.model_copy(update={"text": said, "tool_calls": emptied})
