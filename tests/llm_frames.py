"""What a provider sends, for the test server: one neutral answer as the events of each of the three wires.

Written from the providers' public event descriptions and the SDKs' types, so that it shares no code with the adapters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Wire = Literal["responses", "chat", "messages"]
WIRES: tuple[Wire, ...] = ("responses", "chat", "messages")
Event = tuple[str, dict[str, Any]]
PIECE = 24
"""Characters in one event's piece of text or arguments; more in a long one, which has a thousand pieces at most."""


@dataclass(frozen=True)
class Tokens:
    """What a server reports. `input` is the whole prompt, the cached part of it included."""

    input: int = 100
    output: int = 20
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` as text goes out as it is, cut off or broken or not."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str = ""

    @property
    def written(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Answer:
    """What the model says. `stop` is neutral; the default follows from the calls. `tokens` None: it reports none.

    `reasoning`: thinking that comes before the text. `calls` come after the text.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    stop: Literal["", "done", "tools", "length", "refused", "window", "pause"] = ""
    reasoning: str = ""
    tokens: Tokens | None = Tokens()

    @property
    def ending(self) -> str:
        return self.stop or ("tools" if self.calls else "done")


def frames(wire: Wire, answer: Answer, serial: int) -> list[Event]:
    """The events of a whole stream. serial: tells the ids of one answer from those of another."""
    return list(_WRITERS[wire](answer, serial))


def error_body(wire: Wire, kind: str, message: str, code: str | None) -> dict[str, Any]:
    """The body of an error status."""
    if wire == "messages":
        details = {} if code is None else {"details": {"error_code": code}}
        return {"type": "error", "error": {"type": kind, "message": message, **details}, "request_id": "req_1"}
    return {"error": {"type": kind, "message": message, "code": code, "param": None}}


def error_event(wire: Wire, kind: str, message: str, code: str | None) -> Event:
    """What comes in the middle of a stream when something breaks."""
    if wire == "responses":
        error = {"code": code or kind, "message": message}
        return "response.failed", {"type": "response.failed", "response": {"status": "failed", "error": error}}
    if wire == "messages":
        return "error", error_body(wire, kind, message, code)
    return "", error_body(wire, kind, message, code)


def pieces(text: str) -> list[str]:
    size = max(PIECE, len(text) // 1000)
    return [text[i : i + size] for i in range(0, len(text), size)]


def _messages(answer: Answer, serial: int) -> Iterator[Event]:
    tokens = answer.tokens
    usage: dict[str, Any] = {}
    if tokens is not None:
        usage = {
            "input_tokens": tokens.input - tokens.cached - tokens.cache_write,
            "cache_read_input_tokens": tokens.cached,
            "cache_creation_input_tokens": tokens.cache_write,
            "output_tokens": 1,
        }
    message = {"id": f"msg_{serial}", "type": "message", "role": "assistant", "content": [], "model": "m"}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"type": "message_start", "message": message}
    yield "ping", {"type": "ping"}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.reasoning:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(answer.reasoning)]
        signed = {"type": "signature_delta", "signature": f"sig-{serial}"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]))
        blocks.append(({"type": "redacted_thinking", "data": f"hidden-{serial}"}, []))
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(answer.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for i, call in enumerate(answer.calls):
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(call.written)]]
        opened = {"type": "tool_use", "id": call.id or f"toolu_{serial}_{i}", "name": call.name, "input": {}}
        blocks.append((opened, deltas))
    for index, (opened, deltas) in enumerate(blocks):
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": opened}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    stops = {"done": "end_turn", "tools": "tool_use", "length": "max_tokens", "refused": "refusal"}
    stops |= {"window": "model_context_window_exceeded", "pause": "pause_turn"}
    last: dict[str, Any] = {"type": "message_delta", "usage": {}}
    last["delta"] = {"stop_reason": stops[answer.ending], "stop_sequence": None}
    if answer.ending == "refused":
        last["delta"]["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": "not this one"}
    if tokens is not None:
        last["usage"] = {"output_tokens": tokens.output, "output_tokens_details": {"thinking_tokens": tokens.reasoning}}
    yield "message_delta", last
    yield "message_stop", {"type": "message_stop"}


def _responses(answer: Answer, serial: int) -> Iterator[Event]:
    output: list[dict[str, Any]] = []
    response: dict[str, Any] = {"id": f"resp_{serial}", "object": "response", "model": "m", "output": []}

    def event(kind: str, **fields: Any) -> Event:
        return kind, {"type": kind, **fields}

    yield event("response.created", response={**response, "status": "in_progress"})
    if answer.reasoning:
        item = {"type": "reasoning", "id": f"rs_{serial}", "summary": [], "encrypted_content": "partial"}
        yield event("response.output_item.added", output_index=0, item=item)
        for piece in pieces(answer.reasoning):
            yield event("response.reasoning_summary_text.delta", output_index=0, item_id=item["id"], delta=piece)
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        item = {**item, "summary": summary, "encrypted_content": f"sealed-{serial}"}
        yield event("response.output_item.done", output_index=0, item=item)
        output.append(item)
    refused = answer.ending == "refused"
    if answer.text or refused:
        at, kind = len(output), "refusal" if refused else "output_text"
        item = {"type": "message", "id": f"msg_{serial}", "role": "assistant", "status": "in_progress", "content": []}
        yield event("response.output_item.added", output_index=at, item=item)
        for piece in pieces(answer.text):
            yield event(f"response.{kind}.delta", output_index=at, content_index=0, item_id=item["id"], delta=piece)
        part = {"type": kind, "refusal" if refused else "text": answer.text}
        item = {**item, "status": "completed", "content": [part if refused else {**part, "annotations": []}]}
        yield event("response.output_item.done", output_index=at, item=item)
        output.append(item)
    for i, call in enumerate(answer.calls):
        at, name = len(output), call.id or f"call_{serial}_{i}"
        item = {"type": "function_call", "id": f"fc_{serial}_{i}", "call_id": name, "name": call.name, "arguments": ""}
        yield event("response.output_item.added", output_index=at, item=item)
        for piece in pieces(call.written):
            yield event("response.function_call_arguments.delta", output_index=at, item_id=item["id"], delta=piece)
        item = {**item, "arguments": call.written, "status": "completed"}
        yield event("response.output_item.done", output_index=at, item=item)
        output.append(item)
    response |= {"output": output, "status": "completed", "usage": None}
    if answer.tokens is not None:
        response["usage"] = {
            "input_tokens": answer.tokens.input,
            "input_tokens_details": {
                "cached_tokens": answer.tokens.cached,
                "cache_write_tokens": answer.tokens.cache_write,
            },
            "output_tokens": answer.tokens.output,
            "output_tokens_details": {"reasoning_tokens": answer.tokens.reasoning},
            "total_tokens": answer.tokens.input + answer.tokens.output,
        }
    if answer.ending in ("length", "window"):
        response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        yield event("response.incomplete", response=response)
    else:
        yield event("response.completed", response=response)


def _chat(answer: Answer, serial: int) -> Iterator[Event]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {"id": f"c{serial}", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(answer.reasoning):
        yield chunk({"reasoning_content": piece})
    for piece in pieces(answer.text):
        yield chunk({"refusal" if answer.ending == "refused" else "content": piece})
    for i, call in enumerate(answer.calls):
        opened = {"index": i, "id": call.id or f"call_{serial}_{i}", "type": "function"}
        yield chunk({"tool_calls": [{**opened, "function": {"name": call.name, "arguments": ""}}]})
        for piece in pieces(call.written):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
    stops = {"done": "stop", "tools": "tool_calls", "length": "length", "refused": "content_filter", "window": "length"}
    yield chunk({}, stops.get(answer.ending, "stop"))
    if answer.tokens is not None:
        usage = {
            "prompt_tokens": answer.tokens.input,
            "completion_tokens": answer.tokens.output,
            "total_tokens": answer.tokens.input + answer.tokens.output,
            "prompt_tokens_details": {
                "cached_tokens": answer.tokens.cached,
                "cache_write_tokens": answer.tokens.cache_write,
            },
            "completion_tokens_details": {"reasoning_tokens": answer.tokens.reasoning},
        }
        yield "", {"id": f"c{serial}", "object": "chat.completion.chunk", "choices": [], "usage": usage}


_WRITERS = {"messages": _messages, "responses": _responses, "chat": _chat}
