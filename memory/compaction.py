"""A turn's messages made shorter, cheapest first: answers clipped, older sources dropped, arguments shortened, and only
then whole rounds replaced by a summary.

Pure functions over lists of equal length, so that no call loses its answer. Each message gives way once, and what it
said is handed to `keep` before it does. Not covered: who writes a summary (`agents.thread`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from pydantic import JsonValue

from memory.tokens import TokenCounter
from memory.view import OVERHEAD, clip, shorten

FULL = 0.9
"""Of the budget: a turn beyond it is compacted ..."""
AIM = 0.7
"""... to this, so that the next messages leave what was sent before as it is, and a provider's cache hits."""
HEAD, TAIL = 700, 300
"""Characters that are left of a clipped answer."""
ARGUMENT = 240
"""Characters that are left of a text in a shortened argument."""
DIGEST_ANSWER = 160
"""Characters of each answer in a digest."""

Keep: TypeAlias = Callable[[str], str]
"""Stores a text and returns its path."""


@dataclass(frozen=True)
class Spoken:
    """One message of a turn as far as its length goes.

    `arguments` are the JSON texts of an assistant's tool calls, `names` their tools. `attached` is what comes
    along and can only be dropped as a whole (a provider's reasoning). `key` is the caller's.
    """

    key: int
    speaker: Literal["assistant", "tool", "user"]
    text: str
    arguments: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    attached: str = ""
    gave_way: bool = False
    """Its text or its arguments were shortened before."""


def cost(message: Spoken, counter: TokenCounter) -> int:
    """Tokens of one message."""
    parts = (message.text, message.attached, *message.names, *message.arguments)
    return sum(counter.count(part) for part in parts) + OVERHEAD * (1 + len(message.arguments))


def total(thread: Sequence[Spoken], counter: TokenCounter) -> int:
    return sum(cost(message, counter) for message in thread)


def without_words(thread: Sequence[Spoken], aim: int, counter: TokenCounter, keep: Keep) -> list[Spoken]:
    """`thread` with one message for each of its own, at most `aim` tokens if that can be had without a summary.

    The last round stays whole; older messages give way one by one, oldest first, stage after stage.
    """
    stages: tuple[Callable[[list[Spoken], int], Spoken], ...] = (
        lambda messages, i: _clip_answer(messages[i], keep),
        lambda messages, i: _drop_superseded(messages, i, keep),
        lambda messages, i: replace(messages[i], attached=""),
        lambda messages, i: _shorten_arguments(messages[i], keep),
    )
    messages = list(thread)
    costs = [cost(message, counter) for message in messages]
    older = last_round(messages)
    for stage in stages:
        for i in range(older):
            if sum(costs) <= aim:
                return messages
            messages[i] = stage(messages, i)
            costs[i] = cost(messages[i], counter)
    return messages


def last_round(thread: Sequence[Spoken]) -> int:
    """Index of the last assistant's message: it and its answers are what the model is working on."""
    return max((i for i, message in enumerate(thread) if message.speaker == "assistant"), default=0)


def oldest_rounds(thread: Sequence[Spoken], excess: int, counter: TokenCounter) -> int:
    """How many of the first messages to replace, so that `excess` tokens are saved: whole rounds, never the last."""
    saved, end = 0, 0
    for i, message in enumerate(thread[: last_round(thread)]):
        if message.speaker == "assistant" and saved >= excess:
            break
        saved += cost(message, counter)
        end = i + 1
    return end


def as_text(thread: Sequence[Spoken]) -> str:
    """Messages as a person would read them: what is summarised, and what is kept of them."""
    parts = []
    for message in thread:
        calls = [f"{name} {written}" for name, written in zip(message.names, message.arguments, strict=True)]
        parts.append("\n".join([f"[{message.speaker}]", *([message.text] if message.text else []), *calls]))
    return "\n\n".join(parts)


def clipped_to(text: str, tokens: int, counter: TokenCounter) -> str:
    """`text` for a summariser that can read so many tokens; its middle goes first."""
    return shorten(text, tokens, counter, 4 * HEAD)


def digest(thread: Sequence[Spoken], where: str) -> str:
    """What happened in a few lines, without a model: each call, and how its answer begins."""
    rows = []
    for message in thread:
        for name, written in zip(message.names, message.arguments, strict=True):
            rows.append(f"- called {name} {_brief(written, 120)}")
        if message.speaker == "tool":
            rows.append(f"  → {_brief(message.text, DIGEST_ANSWER)}")
        elif message.text and not message.names:
            rows.append(f"- {message.speaker}: {_brief(message.text, DIGEST_ANSWER)}")
    return clip("\n".join(rows), 3000, 1500, where)


def last_resort(thread: Sequence[Spoken], aim: int, counter: TokenCounter, keep: Keep) -> list[Spoken]:
    """Cut even the last round's messages, longest first, until `thread` costs `aim` tokens or nothing is long."""
    messages = list(thread)
    for length in (4 * HEAD, HEAD, TAIL):
        for i in sorted(range(len(messages)), key=lambda i: -cost(messages[i], counter)):
            if total(messages, counter) <= aim:
                return messages
            message = replace(_shorten_arguments(messages[i], keep, length, again=True), attached="")
            if len(message.text) > 2 * length:
                text = clip(message.text, length * 2 // 3, length // 3, keep(message.text))
                message = replace(message, text=text, gave_way=True)
            messages[i] = message
    return messages


def _clip_answer(message: Spoken, keep: Keep) -> Spoken:
    if message.speaker != "tool" or message.gave_way or len(message.text) <= 2 * (HEAD + TAIL):
        return message
    return replace(message, text=clip(message.text, HEAD, TAIL, keep(message.text)), gave_way=True)


def _drop_superseded(messages: Sequence[Spoken], i: int, keep: Keep) -> Spoken:
    """Whole files in the arguments of message `i` that a later message writes again."""
    if not messages[i].arguments:
        return messages[i]
    later = {name for message in messages[i + 1 :] for written in message.arguments for name in _files_in(written)}

    def change(name: str, text: str, in_files: bool) -> str:
        if not in_files or name not in later or len(text) <= ARGUMENT:
            return text
        return f"[an older {name} of {len(text)} characters; whole in {keep(text)}]"

    return replace(messages[i], arguments=tuple(_rewritten(written, change) for written in messages[i].arguments))


def _shorten_arguments(message: Spoken, keep: Keep, length: int = ARGUMENT, again: bool = False) -> Spoken:
    """Long texts in a call's arguments cut to head and tail; what is no JSON is kept as one text."""
    if (message.gave_way and not again) or not message.arguments:
        return message

    def change(_name: str, text: str, _in_files: bool) -> str:
        return clip(text, length * 2 // 3, length // 3, keep(text)) if len(text) > 2 * length else text

    return replace(message, arguments=tuple(_rewritten(text, change) for text in message.arguments), gave_way=True)


def _rewritten(written: str, change: Callable[[str, str, bool], str]) -> str:
    """JSON arguments with each text changed; told its own key, and whether it stands under `files`."""
    try:
        value: JsonValue = json.loads(written)
    except (json.JSONDecodeError, RecursionError):
        return json.dumps({"not_json": change("", written, False)}, ensure_ascii=False)
    changed = _walk(value, "", False, change)
    return written if changed == value else json.dumps(changed, ensure_ascii=False)


def _walk(value: JsonValue, name: str, in_files: bool, change: Callable[[str, str, bool], str]) -> JsonValue:
    if isinstance(value, str):
        return change(name, value, in_files)
    if isinstance(value, dict):
        return {key: _walk(part, key, name == "files", change) for key, part in value.items()}
    if isinstance(value, list):
        return [_walk(part, name, in_files, change) for part in value]
    return value


def _files_in(written: str) -> set[str]:
    """Names of the files that a call's arguments hold whole."""
    names: set[str] = set()

    def note(name: str, text: str, in_files: bool) -> str:
        if in_files and not text.startswith("[an older "):
            names.add(name)
        return text

    _rewritten(written, note)
    return names


def _brief(text: str, length: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"
