"""Chat Completions, for `openai-chat:` and the many servers that speak them: vLLM, llama.cpp, Ollama, OpenRouter."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from agents.models import errors
from agents.models.base import Opaque, Reply, Request, ToolCall, Usage
from agents.models.connections import Connection
from agents.models.conversation import Turn, arrange
from agents.models.openai_client import bounded_key, named_window, open_client, sdk_errors
from agents.models.shapes import Fields, clean, count, fields, index, items, text
from agents.models.spec import ModelSpec

_CALL_ID = re.compile(r"[\x21-\x7e]{1,64}")
_STOPS: dict[str, Literal["length", "refused"]] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refused",
    "refusal": "refused",
}
_REASONING = ("reasoning_content", "reasoning")
"""Fields in which servers give a model's reasoning as text."""


class Chat:
    """One model by this wire."""

    def __init__(self, spec: ModelSpec, connection: Connection) -> None:
        self._spec, self._connection = spec, connection

    def open(self) -> Any:
        return open_client(self._connection)

    def errors(self) -> tuple[type[Exception], ...]:
        return sdk_errors()

    def body(self, request: Request) -> dict[str, Any]:
        conversation = arrange(request.messages, self._spec.provider, _CALL_ID)
        messages = [{"role": "system", "content": conversation.system}] if conversation.system else []
        for turn in conversation.turns:
            messages += _messages(turn, self._connection.sends_reasoning_back)
        body: dict[str, Any] = {
            "model": self._spec.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            self._output_field: request.reply_tokens,
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in request.tools
            ]
        if self._spec.effort is not None:
            body["reasoning_effort"] = self._spec.effort
        if request.reply_schema is not None:
            schema = {"name": "reply", "schema": request.reply_schema, "strict": False}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.cache_key and self._is_openai:
            body["prompt_cache_key"] = bounded_key(request.cache_key)
        return body

    async def stream(self, client: Any, body: dict[str, Any]) -> Any:
        return await client.chat.completions.create(**body)

    def assembly(self) -> _Completion:
        return _Completion(self._spec, self._connection.secret)

    async def window(self, client: Any) -> int | None:
        return await named_window(client, self._spec.model)

    @property
    def _is_openai(self) -> bool:
        """Other servers may turn down what only OpenAI knows."""
        return "//api.openai.com" in (self._connection.base_url or "//api.openai.com")

    @property
    def _output_field(self) -> str:
        return self._connection.output_field or ("max_completion_tokens" if self._is_openai else "max_tokens")


def _messages(turn: Turn, with_reasoning: bool) -> list[dict[str, Any]]:
    """A user's parts become one message: the templates of some models want the two sides to alternate."""
    if turn.speaker == "user":
        return [{"role": "user", "content": turn.text}]
    said: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    calls: list[dict[str, Any]] = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in turn.called
    ]
    for item in turn.opaque.items if turn.opaque is not None else ():
        found = fields(item)
        at = index(found.get("call"))
        if at is not None and at < len(calls):
            calls[at] |= fields(found.get("extra"))
        elif at is None and with_reasoning:
            said |= found
    if calls:
        said["tool_calls"] = calls
    elif not turn.parts:
        said["content"] = ""
    results = [{"role": "tool", "tool_call_id": call.id, "content": call.result} for call in turn.called]
    return [said, *results]


class _Completion:
    """One reply."""

    def __init__(self, spec: ModelSpec, key: str) -> None:
        self.finished = False
        self._owner, self._model, self._key = spec.provider, str(spec), key
        self._said: list[str] = []
        self._thoughts = _Thoughts()
        self._calls: list[dict[str, Any]] = []
        self._reasoning: dict[str, Any] = {}
        self._stop = ""
        self._usage: Fields = {}

    @property
    def begun(self) -> bool:
        return bool(self._calls or self._reasoning or self._thoughts.begun)

    def take(self, event: Fields) -> str:
        if event.get("error"):
            raise errors.from_body(event, self._model, self._key, self.usage())
        self._usage = fields(event.get("usage")) or self._usage
        said = ""
        for choice in items(event.get("choices"))[:1]:
            said = self._grow(fields(choice.get("delta")) or fields(choice.get("message")))
            stop = text(choice.get("finish_reason"))
            if stop == "error":
                raise errors.from_body(event, self._model, self._key, self.usage())
            if stop:  # some servers send an empty one all along
                self._stop, self.finished = stop, True
                said += self._thoughts.rest()
        if said:
            self._said.append(said)
        return said

    def usage(self) -> Usage | None:
        told = self._usage
        if index(told.get("prompt_tokens")) is None:
            return None
        read, made = fields(told.get("prompt_tokens_details")), fields(told.get("completion_tokens_details"))
        return Usage(
            input_tokens=count(told.get("prompt_tokens")),
            output_tokens=count(told.get("completion_tokens")),
            cached_tokens=count(read.get("cached_tokens")) or count(told.get("prompt_cache_hit_tokens")),
            cache_write_tokens=count(read.get("cache_write_tokens")),
            reasoning_tokens=count(made.get("reasoning_tokens")),
            dollars=_dollars(told.get("cost")),
        )

    def reply(self) -> Reply:
        """Many servers say `stop` where there are calls: what came counts."""
        calls = tuple(
            ToolCall(
                id=call["id"] or f"call_{i}", name=call["name"], arguments=clean("".join(call["arguments"])) or "{}"
            )
            for i, call in enumerate(self._calls)
        )
        kept: list[Any] = [{"call": i, "extra": call["extra"]} for i, call in enumerate(self._calls) if call["extra"]]
        kept += [self._reasoning] if self._reasoning else []
        stop: Literal["done", "tools", "length", "refused"] = _STOPS.get(self._stop, "tools" if calls else "done")
        return Reply(
            text=clean("".join(self._said)),
            tool_calls=calls,
            stop=stop,
            opaque=Opaque(owner=self._owner, items=tuple(kept)) if kept else None,
        )

    def rest(self, body: dict[str, Any]) -> None:
        """No server of this kind pauses."""

    def _grow(self, delta: Fields) -> str:
        for name in _REASONING:
            if text(delta.get(name)):
                self._reasoning[name] = text(self._reasoning.get(name)) + clean(text(delta.get(name)))
        details = items(delta.get("reasoning_details"))
        if details:
            self._reasoning["reasoning_details"] = [*self._reasoning.get("reasoning_details", []), *details]
        for call in items(delta.get("tool_calls")):
            self._grow_call(call)
        if text(delta.get("refusal")):
            self._stop = "refusal"
        return self._thoughts.add(_content(delta.get("content"))) + text(delta.get("refusal"))

    def _grow_call(self, piece: Fields) -> None:
        """A piece belongs to the call of its index, unless it brings a name and another id, or a name and arguments
        where there is a whole call: some servers count all calls as the first one, and some count or name none."""
        function, name = fields(piece.get("function")), text(piece.get("id"))
        at = index(piece.get("index"))
        call = next((c for c in reversed(self._calls) if c["at"] == at), None)
        if at is None:
            call = next((c for c in self._calls if name and c["id"] == name), self._calls[-1] if self._calls else None)
        given = function.get("arguments")
        arguments = json.dumps(given) if isinstance(given, dict) else text(given)
        another = bool(name) and call is not None and call["id"] not in ("", name)
        if call is None or (text(function.get("name")) and (another or (arguments.strip() and _is_whole(call)))):
            call = {"at": at, "id": "", "name": "", "arguments": [], "extra": {}}
            self._calls.append(call)
        call["id"] = call["id"] or name
        call["name"] = call["name"] or text(function.get("name"))
        call["arguments"].append(arguments)
        if piece.get("extra_content"):
            call["extra"]["extra_content"] = piece["extra_content"]


def _is_whole(call: dict[str, Any]) -> bool:
    """Whether nothing can follow a call's arguments."""
    pieces: list[str] = call["arguments"]
    if not pieces or not pieces[-1].rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads("".join(pieces)), dict)
    except (ValueError, RecursionError):
        return False


def _content(value: object) -> str:
    """What is said: a text, or its parts."""
    return text(value) or "".join(text(part.get("text")) for part in items(value) if part.get("type") == "text")


def _dollars(value: object) -> float | None:
    """What OpenRouter says that a reply cost."""
    is_sum = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
    return float(value) if is_sum else None  # type: ignore[arg-type]


class _Thoughts:
    """Takes `<think>…</think>` off the head of a reply, where a server leaves it in."""

    def __init__(self) -> None:
        self._head: str | None = ""
        """What is held back; None once the reply proper has begun."""

    @property
    def begun(self) -> bool:
        """Whether any text came."""
        return self._head != ""

    def add(self, piece: str) -> str:
        if self._head is None:
            return piece
        self._head += piece
        begun = self._head.lstrip()
        if not begun or ("<think>".startswith(begun[:7]) and "</think>" not in begun):
            return ""
        if begun.startswith("<think>"):
            begun = begun.partition("</think>")[2].lstrip()
            if not begun:
                self._head = "<think></think>"
                return ""
            self._head = None
            return begun
        held, self._head = self._head, None
        return held

    def rest(self) -> str:
        """What was held back at the end: a text that never was a thought."""
        held, self._head = self._head or "", None
        return "" if held.lstrip().startswith("<think>") else held
