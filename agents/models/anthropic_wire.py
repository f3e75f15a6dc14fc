"""Anthropic's Messages, for `anthropic:` and servers that speak them."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from agents.models import errors
from agents.models.ambient import headers_for
from agents.models.base import ModelError, Opaque, Reply, Request, ToolCall, Usage
from agents.models.connections import Connection
from agents.models.conversation import Conversation, Turn, arrange
from agents.models.shapes import Fields, clean, count, fields, index, text
from agents.models.spec import ModelSpec
from agents.models.tls import trust

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CACHED = {"type": "ephemeral"}
_STOPS: dict[str, Literal["done", "tools", "length", "refused"]] = {
    "end_turn": "done",
    "stop_sequence": "done",
    "tool_use": "tools",
    "max_tokens": "length",
    "refusal": "refused",
}
_KEPT = ("thinking", "redacted_thinking")
"""Blocks that go back unchanged, with their signatures."""
TEXT, CALL = "text", "call"
"""In an opaque part: where among the kept blocks the text and the calls were."""


class Messages:
    """One model by this wire."""

    def __init__(self, spec: ModelSpec, connection: Connection) -> None:
        self._spec, self._connection = spec, connection

    def open(self) -> Any:
        import anthropic
        import httpx2

        connection = self._connection
        timeout = httpx2.Timeout(connection.timeout, connect=connection.connect_timeout)
        return anthropic.AsyncAnthropic(
            api_key=connection.secret or "none",
            base_url=connection.base_url or "https://api.anthropic.com",
            timeout=timeout,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=trust()),
            max_retries=0,
            default_headers=headers_for(connection, anthropic.Omit(), "ANTHROPIC_CUSTOM_HEADERS"),
        )

    def errors(self) -> tuple[type[Exception], ...]:
        import anthropic
        import httpx2

        return (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError)

    def body(self, request: Request) -> dict[str, Any]:
        spec = self._spec
        conversation = arrange(request.messages, spec.provider, _CALL_ID)
        body: dict[str, Any] = {
            "model": spec.model,
            "max_tokens": request.reply_tokens,
            "messages": _messages(conversation),
            "stream": True,
        }
        tools: list[dict[str, Any]] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        if tools:
            body["tools"] = tools
        if conversation.system:
            body["system"] = [{"type": "text", "text": conversation.system}]
        settings: dict[str, Any] = {}
        if spec.effort in ("none", "minimal"):
            body["thinking"] = {"type": "disabled"}
        elif spec.effort is not None:
            body["thinking"] = {"type": "adaptive"}
            settings["effort"] = spec.effort
        if request.reply_schema is not None:
            settings["format"] = {"type": "json_schema", "schema": request.reply_schema}
        if settings:
            body["output_config"] = settings
        _mark_for_cache(body, conversation)
        return body

    async def stream(self, client: Any, body: dict[str, Any]) -> Any:
        return await client.messages.create(**body)

    def assembly(self) -> _Message:
        return _Message(self._spec)

    async def window(self, client: Any) -> int | None:
        found = await client.models.retrieve(self._spec.model)
        return count(getattr(found, "max_input_tokens", None)) or None


def _messages(conversation: Conversation) -> list[dict[str, Any]]:
    """User and assistant in turns. The results of a turn stand together at the head of the user's next message."""
    messages: list[dict[str, Any]] = []
    for turn in conversation.turns:
        if turn.speaker == "assistant":
            said = _said(turn)
            messages += [{"role": "assistant", "content": said}] if said else []
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": call.result,
                    **({"is_error": True} if call.failed else {}),
                }
                for call in turn.called
            ]
            if results:
                messages.append({"role": "user", "content": results})
            continue
        parts = [{"type": "text", "text": part} for part in turn.parts]
        if messages and messages[-1]["role"] == "user":
            messages[-1]["content"].extend(parts)
        else:
            messages.append({"role": "user", "content": parts})
    return messages


def _said(turn: Turn) -> list[dict[str, Any]]:
    """An assistant's blocks, in the order in which they came where that is known."""
    said = [{"type": "text", "text": turn.text}] if turn.parts else []
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.parsed} for call in turn.called]
    blocks: list[dict[str, Any]] = []
    for item in turn.opaque.items if turn.opaque is not None else ():
        if item in (TEXT, CALL):
            blocks, said = blocks + said, []
        if item == CALL:
            blocks, calls = blocks + calls[:1], calls[1:]
        elif isinstance(item, dict):
            blocks.append(item)
    return blocks + said + calls


def _mark_for_cache(body: dict[str, Any], conversation: Conversation) -> None:
    """Set the provider's breakpoints, of which there may be four.

    On the system prompt, which is the same in a whole run and lies behind the tools, so that it covers them too; on the
    end of the opening, which is the same in all requests of a turn; on the last block, which the next request of the
    turn reads. Without a system prompt the last tool bears the first.
    """
    if conversation.system:
        body["system"][-1]["cache_control"] = _CACHED
    elif "tools" in body:
        body["tools"][-1]["cache_control"] = _CACHED
    messages = body["messages"]
    if not messages:
        return
    if conversation.opening and messages[0]["role"] == "user":
        messages[0]["content"][-1]["cache_control"] = _CACHED
    if messages[-1]["role"] == "user":
        messages[-1]["content"][-1]["cache_control"] = _CACHED


class _Message:
    """One reply, over as many streams as the provider cut it into."""

    def __init__(self, spec: ModelSpec) -> None:
        self.finished = False
        self._owner, self._model = spec.provider, str(spec)
        self._blocks: list[dict[str, Any]] = []
        self._open: dict[int, dict[str, Any]] = {}
        self._written: dict[int, list[str]] = {}
        """Pieces of a call's arguments, by the place of its block."""
        self._stop = ""
        self._explanation = ""
        self._counts: dict[str, int] = {}
        self._before = Usage()
        self._asked: list[Any] | None = None

    @property
    def begun(self) -> bool:
        """Thoughts that nobody is shown are none."""
        return any(block["type"] not in _KEPT or block.get("thinking") for block in self._blocks)

    def take(self, event: Fields) -> str:
        kind = event.get("type")
        if kind == "message_start":
            self._open = {}
            self._count(fields(fields(event.get("message")).get("usage")))
        elif kind == "content_block_start":
            return self._begin(index(event.get("index")) or 0, dict(fields(event.get("content_block"))))
        elif kind == "content_block_delta":
            return self._grow(self._open.get(index(event.get("index")) or 0), fields(event.get("delta")))
        elif kind == "message_delta":
            delta = fields(event.get("delta"))
            self._stop = text(delta.get("stop_reason")) or self._stop
            self._explanation = text(fields(delta.get("stop_details")).get("explanation"))
            self._count(fields(event.get("usage")))
        elif kind == "message_stop":
            self.finished = bool(self._stop)
        elif kind == "error":
            raise errors.from_body(event, self._model)
        return ""

    def usage(self) -> Usage | None:
        """The prompt is what was read from the cache, what was written to it and the rest, each counted apart."""
        if not self._counts:
            return None if self._before == Usage() else self._before
        read, written = (
            self._counts.get("cache_read_input_tokens", 0),
            self._counts.get("cache_creation_input_tokens", 0),
        )
        return Usage(
            input_tokens=self._before.input_tokens + self._counts.get("input_tokens", 0) + read + written,
            output_tokens=self._before.output_tokens + self._counts.get("output_tokens", 0),
            cached_tokens=self._before.cached_tokens + read,
            cache_write_tokens=self._before.cache_write_tokens + written,
            reasoning_tokens=self._before.reasoning_tokens + self._counts.get("thinking_tokens", 0),
        )

    def reply(self) -> Reply:
        if self._stop == "model_context_window_exceeded":
            message = f"{self._model}: the reply ran into the end of the window"
            raise ModelError("overflow", message, "Shorten the prompt.", usage=self.usage())
        calls: list[ToolCall] = []
        items: list[Any] = []
        said = ""
        for place, block in enumerate(self._blocks):
            if block["type"] == "text":
                said += block["text"]
                items += [TEXT] if TEXT not in items else []
            elif block["type"] == "tool_use":
                written = "".join(self._written.get(place, [])) or json.dumps(fields(block.get("input")))
                calls.append(ToolCall(id=text(block.get("id")), name=text(block.get("name")), arguments=clean(written)))
                items.append(CALL)
            elif block["type"] in _KEPT:
                items.append(block)
        stop = _STOPS.get(self._stop, "done")
        if stop in ("done", "tools"):
            stop = "tools" if calls else "done"
        return Reply(
            text=clean(said) or (self._explanation if stop == "refused" else ""),
            tool_calls=tuple(calls),
            stop=stop,
            opaque=Opaque(owner=self._owner, items=tuple(items)) if any(isinstance(i, dict) for i in items) else None,
        )

    def rest(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """A paused reply goes on when all of it so far is sent back as the assistant's."""
        if self._stop != "pause_turn":
            return None
        self._before, self._counts, self._stop = self.usage() or Usage(), {}, ""
        self._asked = self._asked or body["messages"]
        return {**body, "messages": [*self._asked, {"role": "assistant", "content": list(self._blocks)}]}

    def _begin(self, at: int, block: dict[str, Any]) -> str:
        block["type"] = text(block.get("type"))
        if block["type"] == "text":
            block["text"] = text(block.get("text"))
            apart = any(b["type"] == "text" and b["text"] for b in self._blocks) and self._blocks[-1]["type"] != "text"
            block["text"] = ("\n\n" if apart else "") + block["text"]
        self._blocks.append(block)
        self._open[at] = block
        return str(block["text"]) if block["type"] == "text" else ""

    def _grow(self, block: dict[str, Any] | None, delta: Fields) -> str:
        if block is None:
            return ""
        for kind, name in (("text_delta", "text"), ("thinking_delta", "thinking"), ("signature_delta", "signature")):
            if delta.get("type") == kind:
                block[name] = text(block.get(name)) + text(delta.get(name))
                return text(delta.get(name)) if kind == "text_delta" and block["type"] == "text" else ""
        if delta.get("type") == "input_json_delta":
            place = next(i for i, other in enumerate(self._blocks) if other is block)
            self._written.setdefault(place, []).append(text(delta.get("partial_json")))
        return ""

    def _count(self, usage: Fields) -> None:
        """Counts are sums from the begin of the message, so the larger one holds: some gateways end with zeros."""
        told = {name: value for name, value in usage.items() if index(value) is not None}
        told |= {n: v for n, v in fields(usage.get("output_tokens_details")).items() if index(v) is not None}
        self._counts.update({name: max(count(value), self._counts.get(name, 0)) for name, value in told.items()})
