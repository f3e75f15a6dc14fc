"""A turn's transcript read back: every reply with the whole prompt that it answered, and what the tools returned.

The writer (`agents.calls`) checks itself against this reader: where the lines alone would give another prompt than the
one that was sent (a message gave way to the window), it writes a `given` line, which is the prompt itself. Lines of
older runs have no such check; what they leave in doubt is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue, ValidationError

from agents.models.base import Message, Reply, ToolCall
from memory import ledger
from memory.files import RunFolderError
from memory.history import Blobs
from memory.runs import Attempt

Line: TypeAlias = dict[str, JsonValue]

SURE = 8_000
"""Bytes of a tool's answer that reach the model whole in every version: it is never cut below so many tokens, and a
token is a byte at least."""


@dataclass(frozen=True)
class Heard:
    """A reply. `prompt` is what the model was sent, of which the last `fresh` messages are new since its reply before.

    `exact` is false where an older run's lines leave doubt about the prompt.
    """

    prompt: tuple[Message, ...]
    fresh: int
    reply: Reply
    exact: bool


@dataclass(frozen=True)
class Returned:
    """A tool's answer, whole. `call` is the id of the call that it answers."""

    call: str
    tool: str
    text: str


@dataclass
class Reading:
    """Takes a transcript's lines in order. `attempts` are the run's, for ledgers that older runs stored by count."""

    blobs: Blobs
    attempts: Sequence[Attempt] = ()
    look_for_doubt: bool = True
    """Also say whether prompts are exact, which takes counting tokens."""
    prompt: list[Message] = field(default_factory=list)
    """What a model would be sent now."""
    exact: bool = True
    _known: int = 0
    """How many of the messages the last reply's prompt had, the reply included."""
    _pending: list[Message] = field(default_factory=list)
    """Told since the last reply or answer; it stands once a reply follows."""
    _head: int = 0
    _in_view: bool = False
    _told_last: int = 0
    """How many messages stood with the last reply."""
    _known_before: int = 0
    _open: set[str] = field(default_factory=set)
    """Ids of the last reply's calls."""
    _replied: bool = False

    def take(self, line: Line) -> Heard | Returned | None:
        """What the line says. Raises RunFolderError when a text that it names is gone."""
        match line.get("speaker"):
            case "view":
                self._new_view()
            case "given":
                self._give(line)
            case "assistant":
                return self._hear(line)
            case "tool":
                return self._answer(line)
            case "system" | "user":
                self._tell(line)
        return None

    def seen(self) -> tuple[Message, ...]:
        """What a model that is asked now sees."""
        return (*self.prompt, *self._pending)

    def forget_last(self) -> None:
        """The last reply never counted: the run was killed before it did, and what came before it is told again."""
        if self._replied:
            del self.prompt[len(self.prompt) - 1 - self._told_last :]
            self._open, self._replied, self._known = set(), False, self._known_before

    def _new_view(self) -> None:
        """Another opening takes the place of the one before; what was said since stays."""
        del self.prompt[: self._head]
        self._pending = []
        self._head, self._known, self._in_view = 0, 0, True

    def _give(self, line: Line) -> None:
        given = [_given(item, self.blobs) for item in _objects(line.get("messages"))]
        common = 0
        for before, now in zip(self.prompt, given, strict=False):
            if not same(before, now):
                break
            common += 1
        self._known = min(self._known, common)
        self.prompt, self._pending, self.exact = given, [], True
        self._head, self._in_view = 0, False

    def _tell(self, line: Line) -> None:
        message = self._told(line)
        if self._in_view and "tokens" in line:
            self.prompt.insert(self._head, message)
            self._head += 1
            return
        if message.speaker == "system" and self._replied:  # another conversation in the same file, as of summaries
            self.prompt, self._known, self._head, self._replied = [], 0, 0, False
        self._in_view = False
        self._pending.append(message)

    def _told(self, line: Line) -> Message:
        speaker = "system" if line["speaker"] == "system" else "user"
        label = str(line.get("label", ""))
        count = line.get("attempts")
        if isinstance(count, int):  # older runs: the table as it was then can only be made again by today's rules
            self.exact = False
            text = ledger.render(attempt.entry for attempt in self.attempts[:count])
        else:
            text = _text(line, self.blobs)
        return Message(speaker=speaker, text=text, label=label)

    def _hear(self, line: Line) -> Heard | None:
        reply = _reply(line)
        if reply is None:
            return None
        if self._replied and not self._pending and not self._in_view:
            self.exact = False  # a reminder that older runs did not write down
        self.prompt += self._pending
        self._told_last, self._known_before = len(self._pending), self._known
        heard = Heard(tuple(self.prompt), len(self.prompt) - self._known, reply, self.exact)
        self.prompt.append(Message(speaker="assistant", text=reply.text, tool_calls=reply.tool_calls))
        self._known = len(self.prompt)
        self._pending, self._in_view, self._replied = [], False, True
        self._open = {call.id for call in reply.tool_calls}
        return heard

    def _answer(self, line: Line) -> Returned:
        returned = Returned(str(line.get("call", "")), str(line.get("tool", "")), _text(line, self.blobs))
        if returned.call in self._open:
            if self.look_for_doubt and not _fits(returned.text):
                self.exact = False
            message = Message(
                speaker="tool",
                text=returned.text,
                call=returned.call,
                label=returned.tool,
                failed=returned.text.startswith("error: "),
            )
            again = [i for i in range(self._known, len(self.prompt)) if self.prompt[i].call == returned.call]
            if again:  # done again after a kill
                self.prompt[again[0]] = message
            else:
                self.prompt.append(message)
            self._replied = False
        return returned


def same(a: Message, b: Message) -> bool:
    """Whether a model sees the same in both."""
    return (a.speaker, a.text, a.call, a.tool_calls) == (b.speaker, b.text, b.call, b.tool_calls)


def given_line(messages: Sequence[Message], blobs: Blobs) -> Line:
    """The `given` line for a prompt, its texts stored by blob id."""
    return {"speaker": "given", "messages": [_as_given(message, blobs) for message in messages]}


def adds_up(lines: Sequence[Line], blobs: Blobs, sent: Sequence[Message]) -> bool:
    """Whether a reader of `lines` takes a prompt that follows them for what was sent."""
    reading = Reading(blobs, look_for_doubt=False)
    try:
        for line in lines:
            reading.take(line)
    except RunFolderError:  # a power cut took a text
        return False
    seen = reading.seen()
    return len(seen) == len(sent) and all(same(a, b) for a, b in zip(seen, sent, strict=True))


def _as_given(message: Message, blobs: Blobs) -> Line:
    line: Line = {"speaker": message.speaker, "label": message.label, "blob": blobs.put(message.text)}
    if message.call is not None:
        line |= {"call": message.call, "failed": message.failed}
    if message.tool_calls:
        calls: list[JsonValue] = [
            {"id": call.id, "name": call.name, "blob": blobs.put(call.arguments)} for call in message.tool_calls
        ]
        line["calls"] = calls
    return line


def _given(line: Line, blobs: Blobs) -> Message:
    return Message.model_validate(
        {
            "speaker": line.get("speaker"),
            "text": _text(line, blobs),
            "label": line.get("label", ""),
            "call": line.get("call"),
            "failed": line.get("failed", False),
            "tool_calls": tuple(
                ToolCall(id=str(item.get("id")), name=str(item.get("name")), arguments=_text(item, blobs))
                for item in _objects(line.get("calls"))
            ),
        }
    )


def _objects(value: JsonValue) -> list[Line]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(line: Line, blobs: Blobs) -> str:
    blob = line.get("blob")
    return blobs.get(blob) if isinstance(blob, str) else str(line.get("text", ""))


def _reply(line: Line) -> Reply | None:
    """The reply in an `assistant` line, without what other versions wrote beside it; None when it is none."""
    try:
        return Reply.model_validate({name: line[name] for name in Reply.model_fields if name in line})
    except ValidationError:
        return None


def _fits(text: str) -> bool:
    """Whether a tool's answer is within what a prompt can hold of one."""
    if len(text.encode(errors="replace")) <= SURE:
        return True
    from memory.tokens import COUNTER

    return COUNTER.count(text) <= SURE
