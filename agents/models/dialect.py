"""How a model is told of tools and how it calls them: by its provider's own fields, by JSON or in plain text.

Native tools are best where they work. Each next way asks less of the model and of its server; who finds that a model
ignores its tools asks for the next one by `Request.dialect`, so that a resumed run knows it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from pydantic import JsonValue

from agents.models.base import Dialect, Message, OnText, Reply, Request, ToolCall, ToolSpec
from agents.models.conversation import Turn, arrange
from agents.models.error_table import FormatUnsupported
from agents.models.json_dialect import Json
from agents.models.remote import Remote
from agents.models.shapes import clean
from agents.models.text_dialect import Text
from agents.models.written_calls import Written, tagged

LADDER: tuple[Dialect, ...] = ("native", "json", "text")
"""Each is to be tried after the one before it."""


class Listening(Protocol):
    """Finds in a stream what is meant for people."""

    def add(self, piece: str) -> None: ...

    def end(self, said: str) -> None: ...


class Speech(Protocol):
    """A way of writing calls into text."""

    name: Dialect

    def manual(self, tools: Sequence[ToolSpec]) -> str: ...

    def schema(self, tools: Sequence[ToolSpec]) -> dict[str, JsonValue] | None: ...

    def tell(self, turn: Turn) -> list[Message]: ...

    def read(self, text: str, tools: Sequence[ToolSpec], cut: bool) -> tuple[str, list[Written]]: ...

    def listen(self, on_text: OnText) -> Listening: ...


_ANY = re.compile(r"(?s).*")

SPEECHES: dict[Dialect, Speech] = {"json": Json(), "text": Text()}


class Interpreter:
    """A model that can be spoken to in several dialects."""

    def __init__(self, model: Remote, fixed: Dialect | None = None) -> None:
        """fixed: the only one; None: native, and the next one when the server can't do that."""
        self.model = model
        self.dialects: tuple[Dialect, ...] = LADDER if fixed is None else (fixed,)
        self._default = self.dialects[0]

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def window(self) -> int:
        return self.model.window

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The next message, in the request's dialect where the model may be spoken to in it. Raises ModelError."""
        dialect = request.dialect if request.dialect in self.dialects else self._default
        while True:
            try:
                return await self._reply(request, dialect, on_text)
            except FormatUnsupported:
                following = self.dialects[self.dialects.index(dialect) + 1 :]
                if not following:
                    raise
                self._default = dialect = following[0]

    async def aclose(self) -> None:
        await self.model.aclose()

    async def probe(self) -> int | None:
        """The window that the server names for this model, tokens; None where it names none. Raises ModelError."""
        return await self.model.probe()

    async def _reply(self, request: Request, dialect: Dialect, on_text: OnText | None) -> Reply:
        speech = SPEECHES.get(dialect)
        if speech is None:
            return _with_tagged(await self.model.reply(request, on_text), request)
        listening = speech.listen(on_text) if on_text is not None else None
        reply = await self.model.reply(translated(request, speech), listening.add if listening else None)
        said, calls = reply.text, list[Written]()
        if reply.stop != "refused":
            said, calls = speech.read(reply.text, request.tools, reply.stop == "length")
        said = clean(said)
        if listening is not None:
            listening.end(said)
        update: dict[str, object] = {"text": said, "dialect": dialect, "opaque": None}
        return _with_calls(reply.model_copy(update=update), calls, request)


def translated(request: Request, speech: Speech) -> Request:
    """`request` with its tools, calls and results as text."""
    conversation = arrange(request.messages, "", _ANY)
    system = conversation.system
    if request.tools:
        system = f"{system}\n\n{speech.manual(request.tools)}".strip()
    messages = [Message(speaker="system", text=system)] if system else []
    for turn in conversation.turns:
        if turn.speaker == "user":
            messages += [Message(speaker="user", text=part) for part in turn.parts]
        else:
            messages += speech.tell(turn)
    schema = speech.schema(request.tools) if request.tools else None
    return request.model_copy(update={"messages": tuple(messages), "tools": (), "reply_schema": schema})


def _with_tagged(reply: Reply, request: Request) -> Reply:
    """A native reply whose calls the server left in the text."""
    if reply.tool_calls or reply.stop != "done" or "<tool_call>" not in reply.text:
        return reply
    said, calls = tagged(reply.text, [tool.name for tool in request.tools])
    return _with_calls(reply.model_copy(update={"text": said}), calls, request)


def _with_calls(reply: Reply, calls: Sequence[Written], request: Request) -> Reply:
    """`reply` with calls whose ids are new in the conversation."""
    made = tuple(
        ToolCall(id=f"call_{len(request.messages)}_{i}", name=clean(call.name), arguments=clean(call.arguments))
        for i, call in enumerate(calls)
    )
    stop = "tools" if made and reply.stop == "done" else reply.stop
    return reply.model_copy(update={"tool_calls": made, "stop": stop})
