"""Streams as gateways and servers of one's own send them: what is odd is understood, what is cut off is a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from agents.models.base import Message, ModelError, Reply, Request, ToolSpec
from agents.models.connections import BUILT_IN, Connections
from agents.models.registry import resolve
from agents.models.shapes import MOST_TOKENS
from tests.llm_server import KEY, WIRES, Answer, LlmServer, Wire

PROVIDERS = {"responses": "openai", "chat": "openai-chat", "messages": "anthropic"}
REQUEST = Request(
    messages=(Message(speaker="system", text="You write kernels."), Message(speaker="user", text="Go.")),
    tools=(ToolSpec(name="run", description="Runs.", parameters={"type": "object", "properties": {}}),),
)
HALF = "\ud83d"
"""Of a pair; JSON carries it as an escape."""
Events = list[dict[str, Any]]


@asynccontextmanager
async def sending(events: Events) -> AsyncIterator[str]:
    """The address of a server that sends just these events, whatever it is asked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:]) for line in head.decode().lower().split("\r\n") if line.startswith("content-length:")
        )
        await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            writer.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def reply_to(wire: Wire, events: Events, **changes: Any) -> Reply:
    provider = PROVIDERS[wire]
    async with sending(events) as url:
        usual = {"base_url": url if wire == "messages" else f"{url}/v1", "key": SecretStr(KEY), "timeout": 5.0}
        connection = BUILT_IN[provider].model_copy(update={**usual, **changes})
        model = resolve(f"{provider}:m", connections=Connections(providers={provider: connection}))
        try:
            return await model.reply(REQUEST)
        finally:
            await model.aclose()


def delta(said: dict[str, Any], finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": "c1", "choices": [{"index": 0, "delta": said, "finish_reason": finish}], **more}


def piece(arguments: Any, name: str | None = "run", **at: Any) -> dict[str, Any]:
    return {**at, "function": {"arguments": arguments, **({"name": name} if name else {})}}


ONE, TWO = '{"a": 1}', '{"b": 2}'


@pytest.mark.parametrize(
    "pieces",
    [
        [[piece(ONE, id="x", index=0), piece(TWO, id="y", index=1)]],
        [[piece(ONE, id="x"), piece(TWO, id="y")]],
        [[piece(ONE, id="x", index=0), piece(TWO, id="y", index=0)]],
        [[piece(ONE), piece(TWO)]],
        [[piece(ONE)], [piece(TWO)]],
        [[piece(ONE, index=0)], [piece(TWO, index=0)]],
        [[piece(ONE, id="x"), piece(TWO, id="x")]],
        [[piece(ONE, id="x", index=0), piece(TWO, id="x", index=1)]],
        [[piece({"a": 1}), piece({"b": 2})]],
        [[piece('{"a"', id="x", index=0)], [piece(": 1}", id="x", index=0)], [piece(TWO, id="y", index=1)]],
        [[piece('{"a"')], [piece(": 1}", None)], [piece('{"b"')], [piece(": 2}", None)]],
        [[piece('{"a"', id="x")], [piece(": 1}", id="x")], [piece("", id="x")], [piece(TWO, id="y")]],
        [[piece(None, id="x", index=0)], [piece(ONE, None, index=0)], [piece(TWO, index=1)]],
    ],
)
async def test_two_calls_are_two_however_a_server_counts_and_names_them(pieces: list[Events]) -> None:
    reply = await reply_to("chat", [*(delta({"tool_calls": some}) for some in pieces), delta({}, "tool_calls")])
    assert [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == [("run", {"a": 1}), ("run", {"b": 2})]
    assert all(call.id for call in reply.tool_calls) and reply.stop == "tools"


@pytest.mark.parametrize("finish", ["", None, 0, [], {}])
async def test_only_a_reason_is_a_finish_marker(finish: Any) -> None:
    cut = [delta({"content": "half"}, finish), delta({"content": " an answer"}, finish)]
    with pytest.raises(ModelError, match="before its finish marker"):
        await reply_to("chat", cut)
    assert (await reply_to("chat", [*cut, delta({}, "stop")])).text == "half an answer"


@pytest.mark.parametrize(
    "whole",
    [
        [delta({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "hi"}]}, "stop")],
        [{"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}],
        [{"choices": []}, delta({"content": "hi", "new": {}}, "eos", x_vendor=[1]), {"choices": None, "usage": None}],
        [delta({"content": "hi", "tool_calls": None, "refusal": None}), delta({}, "tool_calls")],
    ],
)
async def test_a_text_is_found_where_servers_put_it(whole: Events) -> None:
    reply = await reply_to("chat", whole)
    assert (reply.text, reply.tool_calls, reply.stop) == ("hi", (), "done") and reply.usage.estimated


@pytest.mark.parametrize(
    ("told", "counted"),
    [
        ({"prompt_tokens": 7.0, "completion_tokens": 2.0}, (7, 2)),
        ({"prompt_tokens": 7, "completion_tokens": -2}, (7, 0)),
        ({"prompt_tokens": 7, "completion_tokens": 10**400}, (7, 0)),
        ({"prompt_tokens": MOST_TOKENS, "completion_tokens": MOST_TOKENS - 1}, (0, MOST_TOKENS - 1)),
        ({"prompt_tokens": 7, "completion_tokens": None, "prompt_tokens_details": 3}, (7, 0)),
    ],
)
async def test_counts_are_numbers_that_can_be_paid(told: dict[str, Any], counted: tuple[int, int]) -> None:
    usage = (await reply_to("chat", [delta({"content": "hi"}, "stop", usage=told)])).usage
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (*counted, False)


async def test_zeros_at_the_end_take_no_count_back() -> None:
    events: Events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 90, "cache_read_input_tokens": 10}}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 0, "output_tokens": 4},
        },
        {"type": "message_stop"},
    ]
    usage = (await reply_to("messages", events)).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (100, 10, 4)


@pytest.mark.parametrize("numbered", [False, True])
async def test_responses_items_are_told_apart_without_numbers(numbered: bool) -> None:
    events: Events = []
    for n, arguments in enumerate((ONE, TWO)):
        at = {"output_index": n} if numbered else {}
        item = {"type": "function_call", "id": f"f{n}", "call_id": f"c{n}", "name": "run", "arguments": ""}
        events += [
            {"type": "response.output_item.added", **at, "item": item},
            {"type": "response.function_call_arguments.delta", **at, "item_id": f"f{n}", "delta": arguments},
            {"type": "response.output_item.done", **at, "item": item},
        ]
    reply = await reply_to("responses", [*events, {"type": "response.completed", "response": {}}])
    assert [(call.id, call.arguments) for call in reply.tool_calls] == [("c0", ONE), ("c1", TWO)]


@pytest.mark.parametrize("response", [{"status": "incomplete"}, {}, {"incomplete_details": {"reason": "new"}}])
async def test_an_incomplete_response_is_never_a_short_answer(response: dict[str, Any]) -> None:
    said = {"type": "response.output_text.delta", "output_index": 0, "delta": "half"}
    reply = await reply_to("responses", [said, {"type": "response.incomplete", "response": response}])
    assert (reply.text, reply.stop) == ("half", "length")


HALVES: dict[Wire, Events] = {
    "chat": [
        delta({"content": f"a{HALF}", "reasoning_details": [{"data": HALF}]}),
        delta({"tool_calls": [piece(f'{{"{HALF}": 1}}', f"run{HALF}", id=HALF, index=0, extra_content={HALF: HALF})]}),
        delta({}, "tool_calls"),
    ],
    "responses": [
        {"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "id": HALF}},
        {
            "type": "response.output_item.done",
            "output_index": 1,
            "item": {"type": "function_call", "id": "f", "call_id": HALF, "name": HALF, "arguments": "{}"},
        },
        {"type": "response.completed", "response": {}},
    ],
    "messages": [
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": HALF}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": HALF}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": HALF, "name": HALF, "input": {HALF: HALF}},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ],
}


@pytest.mark.parametrize("wire", WIRES)
async def test_half_a_pair_can_be_stored_wherever_it_stands(wire: Wire) -> None:
    reply = await reply_to(wire, HALVES[wire])
    assert reply.opaque is not None and len(reply.tool_calls) == 1
    assert Reply.model_validate_json(reply.model_dump_json()) == reply


@pytest.mark.parametrize("wire", WIRES)
async def test_half_a_pair_as_a_name_breaks_at_most_the_stream(wire: Wire) -> None:
    odd = {"type": "response.created", "response": {HALF: 1}, HALF: 1, "choices": [{HALF: 1}], "message": {HALF: 1}}
    try:
        await reply_to(wire, [{**odd, "type": "message_start"} if wire == "messages" else odd, *HALVES[wire]])
    except ModelError as error:
        assert error.fault == "transient"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("own_address", [False, True])
async def test_an_sdk_s_own_variables_reach_only_the_address_that_they_are_for(
    wire: Wire, own_address: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = {
        "OPENAI_CUSTOM_HEADERS": "X-Gateway: planted-1\nAuthorization: planted-2",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway: planted-1\nauthorization: planted-2",
        "ANTHROPIC_AUTH_TOKEN": "planted-3",
        "ANTHROPIC_API_KEY": "planted-4",
        "OPENAI_API_KEY": "planted-5",
        "OPENAI_ORG_ID": "planted-6",
        "OPENAI_PROJECT_ID": "planted-7",
    }
    for name, value in planted.items():
        monkeypatch.setenv(name, value)
    with LlmServer([Answer("hi")]) as server:
        connections = server.connections(headers={"X-Own": "mine"})
        connection = connections.of(PROVIDERS[wire])
        if own_address and connection.url_env:
            monkeypatch.setenv(connection.url_env, connection.base_url or "")
        model = resolve(f"{PROVIDERS[wire]}:m", connections=connections)
        await model.reply(REQUEST)
        await model.aclose()
        sent = server.requests[0].headers
    assert sent["x-own"] == "mine"
    if own_address and wire != "chat":
        assert sent["x-gateway"] == "planted-1"
    else:
        assert "planted" not in json.dumps(sent) and sent["authorization"] == f"Bearer {KEY}"
