"""The neutral messages as turns that any wire can carry: nothing without its counterpart, no name or text that a
provider would turn down.

A run may have been killed in the middle of a turn, moved from another provider or cut down to its window, and
providers refuse a history whose calls and results do not pair. What becomes of a message depends on those before it
alone (but for results, which move up), so that a prefix stays the same from request to request and prompt caches hit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from agents.models.base import Message, Opaque
from agents.models.shapes import clean

NOT_RUN = "error: not_run: this call was not made; call again if it is still wanted"
UNPARSED = "unparsed_arguments"
"""The key under which arguments that are no JSON object travel: every wire demands an object."""
_NAME = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True)
class Called:
    """A tool call with its result. `arguments` is the JSON text of an object; `id` is unique in the conversation."""

    id: str
    name: str
    arguments: str
    result: str
    failed: bool

    @property
    def parsed(self) -> dict[str, JsonValue]:
        value: dict[str, JsonValue] = json.loads(self.arguments)
        return value


@dataclass(frozen=True)
class Turn:
    """What one side said. A user has `parts`, one for each message; an assistant has at most one part, and `called`."""

    speaker: Literal["user", "assistant"]
    parts: tuple[str, ...]
    called: tuple[Called, ...] = ()
    opaque: Opaque | None = None

    @property
    def text(self) -> str:
        return "\n\n".join(self.parts)


@dataclass(frozen=True)
class Conversation:
    """`system` may be empty. `opening` is how many of the turns came before the model's first."""

    system: str
    turns: tuple[Turn, ...]

    @property
    def opening(self) -> int:
        return next((i for i, turn in enumerate(self.turns) if turn.speaker == "assistant"), len(self.turns))


@dataclass
class _Open:
    """An assistant's message whose results are still being found."""

    message: Message
    results: dict[int, Message] = field(default_factory=dict)


def arrange(messages: Sequence[Message], owner: str, allowed: re.Pattern[str]) -> Conversation:
    """`messages` as alternating turns.

    owner: whose opaque parts are kept. allowed: what a call's id may look like on the wire (a full match); any other
    and any that occurs twice is replaced by one that is made from it.

    A call without a result gets `NOT_RUN`; a result without a call becomes a user's text; results move up to their
    calls; a system message after the first other one becomes a user's; an assistant that said nothing is left out.
    """
    system: list[str] = []
    spoken: list[_Open | str] = []
    for message in messages:
        if message.speaker == "system" and not spoken:
            system.append(clean(message.text))
        elif message.speaker == "assistant":
            spoken.append(_Open(message))
        elif message.speaker == "tool":
            asked = _asked(spoken, message)
            if asked is None:
                spoken.append(f"Result of an earlier call of `{message.label or 'a tool'}`:\n{message.text}")
            else:
                asked[0].results[asked[1]] = message
        elif message.text.strip():
            spoken.append(message.text)
    return Conversation("\n\n".join(system), tuple(_merged(_turns(spoken, owner, allowed))))


def object_text(arguments: str) -> str:
    """`arguments` as the JSON text of an object: as they are where they are one."""
    try:
        value = json.loads(arguments or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return json.dumps({UNPARSED: clean(arguments)}, ensure_ascii=False)
    if "\\ud" in arguments.lower() or clean(arguments) != arguments:
        return clean(json.dumps(value, ensure_ascii=False))
    return arguments or "{}"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _asked(spoken: Sequence[_Open | str], result: Message) -> tuple[_Open, int] | None:
    """The last call of that id that has no result yet."""
    for said in reversed(spoken):
        if isinstance(said, _Open):
            for i, call in enumerate(said.message.tool_calls):
                if call.id == result.call and i not in said.results:
                    return said, i
    return None


def _turns(spoken: Sequence[_Open | str], owner: str, allowed: re.Pattern[str]) -> list[Turn]:
    used: set[str] = set()
    turns: list[Turn] = []
    for said in spoken:
        if isinstance(said, str):
            turns.append(Turn("user", (clean(said),)))
            continue
        message = said.message
        opaque = message.opaque if message.opaque is not None and message.opaque.owner == owner else None
        called = []
        for i, call in enumerate(message.tool_calls):
            result = said.results.get(i)
            called.append(
                Called(
                    id=_id(call.id, used, allowed),
                    name=_NAME.sub("_", call.name)[:64] or "unnamed",
                    arguments=object_text(call.arguments),
                    result=clean(result.text) if result is not None and result.text else _nothing(result),
                    failed=result is None or result.failed,
                )
            )
        parts = (clean(message.text),) if message.text.strip() else ()
        if parts or called or (opaque is not None and opaque.items):
            turns.append(Turn("assistant", parts, tuple(called), opaque))
    return turns


def _nothing(result: Message | None) -> str:
    return NOT_RUN if result is None else "(nothing)"


def _id(name: str, used: set[str], allowed: re.Pattern[str]) -> str:
    """`name` where the wire takes it and it is new, else one that is made from it and from how many came before."""
    if name in used or not allowed.fullmatch(name):
        name = "call_" + hashlib.sha256(f"{len(used)} {clean(name)}".encode()).hexdigest()[:24]
    used.add(name)
    return name


def _merged(turns: Sequence[Turn]) -> list[Turn]:
    """`turns` with neighbours of the same user joined; two assistants in a row are kept apart by a user's word."""
    merged: list[Turn] = []
    for turn in turns:
        last = merged[-1] if merged else None
        if last is not None and last.speaker == turn.speaker == "user":
            merged[-1] = Turn("user", last.parts + turn.parts)
            continue
        if turn.speaker == "assistant" and (last is None or (last.speaker == "assistant" and not last.called)):
            merged.append(Turn("user", ("Go on.",)))
        merged.append(turn)
    return merged
