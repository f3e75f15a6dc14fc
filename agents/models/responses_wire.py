"""OpenAI's Responses, for `openai:`. Nothing is stored with the provider: each request holds the whole conversation."""

from __future__ import annotations

import re
from typing import Any, Literal

from agents.models import errors
from agents.models.base import Opaque, Reply, Request, ToolCall, Usage
from agents.models.connections import Connection
from agents.models.conversation import Turn, arrange
from agents.models.openai_client import bounded_key, named_window, open_client, sdk_errors
from agents.models.shapes import Fields, clean, count, fields, index, items, text
from agents.models.spec import ModelSpec

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CUT: dict[str, Literal["length", "refused"]] = {"max_output_tokens": "length", "content_filter": "refused"}
TEXT, CALL = "text", "call"
"""In an opaque part: where among the reasoning items, which come sealed by default, the text and the calls were."""


class Responses:
    """One model by this wire."""

    def __init__(self, spec: ModelSpec, connection: Connection) -> None:
        self._spec, self._connection = spec, connection

    def open(self) -> Any:
        return open_client(self._connection)

    def errors(self) -> tuple[type[Exception], ...]:
        return sdk_errors()

    def body(self, request: Request) -> dict[str, Any]:
        conversation = arrange(request.messages, self._spec.provider, _CALL_ID)
        body: dict[str, Any] = {
            "model": self._spec.model,
            "input": [item for turn in conversation.turns for item in _items(turn)],
            "max_output_tokens": request.reply_tokens,
            "store": False,
            "stream": True,
        }
        if conversation.system:
            body["instructions"] = conversation.system
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in request.tools
            ]
        if self._spec.effort is not None:
            body["reasoning"] = {"effort": self._spec.effort}
        if request.reply_schema is not None:
            form = {"type": "json_schema", "name": "reply", "schema": request.reply_schema, "strict": False}
            body["text"] = {"format": form}
        if request.cache_key:
            body["prompt_cache_key"] = bounded_key(request.cache_key)
        return body

    async def stream(self, client: Any, body: dict[str, Any]) -> Any:
        return await client.responses.create(**body)

    def assembly(self) -> _Response:
        return _Response(self._spec, self._connection.secret)

    async def window(self, client: Any) -> int | None:
        return await named_window(client, self._spec.model)


def _items(turn: Turn) -> list[dict[str, Any]]:
    if turn.speaker == "user":
        return [{"type": "message", "role": "user", "content": part} for part in turn.parts]
    said = [{"type": "message", "role": "assistant", "content": turn.text}] if turn.parts else []
    calls: list[dict[str, Any]] = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in turn.called
    ]
    results = [{"type": "function_call_output", "call_id": call.id, "output": call.result} for call in turn.called]
    out: list[dict[str, Any]] = []
    kept = [item for item in turn.opaque.items if isinstance(item, dict)] if turn.opaque is not None else []
    for item in kept:
        if item.get("type") in (TEXT, CALL):
            phase = {"phase": item["phase"]} if item.get("phase") else {}
            out, said = out + [{**message, **phase} for message in said], []
        if item.get("type") == CALL:
            out, calls = out + calls[:1], calls[1:]
        elif item.get("type") != TEXT:
            out.append(item)
    return out + said + calls + results


class _Response:
    """One reply."""

    def __init__(self, spec: ModelSpec, key: str) -> None:
        self.finished = False
        self._owner, self._model, self._key = spec.provider, str(spec), key
        self._items: dict[int, dict[str, Any]] = {}
        """Output items by their place, whole once they are done."""
        self._arguments: dict[int, list[str]] = {}
        self._said: list[str] = []
        self._spoken: set[int] = set()
        """Places of the items that text came from."""
        self._response: Fields = {}
        self._refused = False
        self._cut = False

    @property
    def begun(self) -> bool:
        """Thoughts that nobody is shown are none."""
        return bool(self._said or any(item.get("type") == "function_call" for item in self._items.values()))

    def take(self, event: Fields) -> str:
        kind, at = text(event.get("type")), self._place(event)
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._refused |= kind == "response.refusal.delta"
            return self._say(at, text(event.get("delta")))
        if kind == "response.function_call_arguments.delta":
            self._arguments.setdefault(at, []).append(text(event.get("delta")))
        elif kind == "response.output_item.added":
            self._items[at] = dict(fields(event.get("item")))
        elif kind == "response.output_item.done":
            return self._done(at, dict(fields(event.get("item"))))
        elif kind in ("response.completed", "response.incomplete"):
            self._response, self.finished = fields(event.get("response")), True
            self._cut = "incomplete" in (kind.partition(".")[2], self._response.get("status"))
            if not self._items:
                return "".join(self._done(i, dict(item)) for i, item in enumerate(items(self._response.get("output"))))
        elif kind in ("response.failed", "response.cancelled"):
            self._response = fields(event.get("response"))
            raise errors.from_body(self._response, self._model, self._key, self.usage())
        elif kind == "error":
            raise errors.from_body(event, self._model, self._key)
        return ""

    def usage(self) -> Usage | None:
        told = fields(self._response.get("usage"))
        if index(told.get("input_tokens")) is None:
            return None
        read, made = fields(told.get("input_tokens_details")), fields(told.get("output_tokens_details"))
        return Usage(
            input_tokens=count(told.get("input_tokens")),
            output_tokens=count(told.get("output_tokens")),
            cached_tokens=count(read.get("cached_tokens")),
            cache_write_tokens=count(read.get("cache_write_tokens")),
            reasoning_tokens=count(made.get("reasoning_tokens")),
        )

    def reply(self) -> Reply:
        calls: list[ToolCall] = []
        kept: list[Any] = []
        for at, item in sorted(self._items.items()):
            if item.get("type") == "function_call":
                written = text(item.get("arguments")) or "".join(self._arguments.get(at, [])) or "{}"
                name = text(item.get("call_id")) or text(item.get("id"))
                calls.append(ToolCall(id=name, name=text(item.get("name")), arguments=clean(written)))
                kept.append({"type": CALL})
            elif item.get("type") == "message":
                kept.append({"type": TEXT, **({"phase": item["phase"]} if item.get("phase") else {})})
            elif item.get("type") == "reasoning":
                kept.append(item)
        stop: Literal["done", "tools", "length", "refused"] = "tools" if calls else "done"
        if self._cut:
            reason = fields(self._response.get("incomplete_details")).get("reason")
            stop = _CUT.get(text(reason), "length")
        if self._refused:
            stop = "refused"
        sealed = any(item.get("type") == "reasoning" or "phase" in item for item in kept)
        return Reply(
            text=clean("".join(self._said)),
            tool_calls=tuple(calls),
            stop=stop,
            opaque=Opaque(owner=self._owner, items=tuple(kept)) if sealed else None,
        )

    def rest(self, body: dict[str, Any]) -> None:
        """This provider pauses nothing."""

    def _place(self, event: Fields) -> int:
        """Among the output items; by the item's id where a server counts none."""
        if (at := index(event.get("output_index"))) is not None:
            return at
        name = text(event.get("item_id")) or text(fields(event.get("item")).get("id"))
        last = max(self._items, default=0)
        if not name:
            return last
        return next((at for at, item in self._items.items() if item.get("id") == name), last + bool(self._items))

    def _done(self, at: int, item: dict[str, Any]) -> str:
        """An item that is whole; its text, if none of it came in pieces."""
        self._items[at] = item
        if item.get("type") != "message" or at in self._spoken:
            return ""
        parts = items(item.get("content"))
        self._refused |= any(part.get("type") == "refusal" for part in parts)
        return self._say(at, "".join(text(part.get("text")) or text(part.get("refusal")) for part in parts))

    def _say(self, at: int, piece: str) -> str:
        if piece and self._said and at not in self._spoken:
            piece = "\n\n" + piece
        if piece:
            self._said.append(piece)
            self._spoken.add(at)
        return piece
