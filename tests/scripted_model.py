"""The only fake of the suite: a model that says what a test wrote for it, through the same protocol as any other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pydantic import JsonValue

from agents.models.base import Dialect, Message, OnText, Reply, Request, ToolCall, ToolSpec, Usage

Line = Reply | Callable[[Sequence[Message]], Reply]


def says(text: str, **usage: int) -> Reply:
    return Reply(text=text, usage=Usage(**usage))


def calls(name: str, arguments: JsonValue | str, call: str = "c0", **usage: int) -> Reply:
    """A reply with one tool call; arguments given as text go out as they are, valid JSON or not."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return Reply(tool_calls=(ToolCall(id=call, name=name, arguments=text),), usage=Usage(**usage), stop="tools")


class ScriptedModel:
    """Plays `lines` in order and remembers what it was told; after the last line it fails the test."""

    def __init__(
        self,
        lines: Sequence[Line],
        window: int = 200_000,
        name: str = "scripted:test",
        dialects: tuple[Dialect, ...] = ("native",),
    ) -> None:
        self.name = name
        self.window = window
        self.dialects = dialects
        self.asked: list[Request] = []
        self.heard: list[list[Message]] = []
        self.offered: list[list[ToolSpec]] = []
        self.summary: Line = Reply(text="They looked around.", usage=Usage(dollars=0.0))
        """What it says whenever it is asked to sum up."""
        self._lines = list(lines)

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        messages = list(request.messages)
        if "older part of a conversation" in messages[0].text:  # a summary beside the turn
            return self.summary if isinstance(self.summary, Reply) else self.summary(messages)
        self.asked.append(request)
        self.heard.append(messages)
        self.offered.append(list(request.tools))
        assert self._lines, f"the script is at its end, but the model was told: {messages[-1].text[:500]}"
        line = self._lines.pop(0)
        reply = line if isinstance(line, Reply) else line(messages)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply.model_copy(update={"dialect": request.dialect or reply.dialect})

    async def aclose(self) -> None:
        """Nothing is open."""
