"""The contract of a model, tested alike with every adapter, over real HTTP where there is a wire."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from agents.actions import TOOLS
from agents.models.base import ChatModel, Message, ModelError, Opaque, Reply, Request, ToolCall, ToolSpec, Usage
from agents.models.connections import BUILT_IN, Connection, Connections
from agents.models.conversation import NOT_RUN, UNPARSED
from agents.models.registry import WIRES as ADAPTERS
from agents.models.registry import resolve
from agents.models.spec import ModelSpec
from agents.toolbox import Toolbox
from tests.llm_heard import Heard, check, heard
from tests.llm_server import KEY, PROVIDER_OF, WIRES, Answer, Call, LlmServer, Tokens, Wire, breaks
from tests.scripted_model import ScriptedModel

EVERY = (*WIRES, "json", "text", "replay", "scripted")
"""Three wires, two dialects over one of them, and two models without a wire."""
RUN = ToolSpec(name="run", description="Runs.", parameters={"type": "object", "properties": {"candidates": {}}})
COMPILE = ToolSpec(name="compile", description="Builds.", parameters={"type": "object", "properties": {}})
ODD = 'int π = 1; // 😀 "quoted" \\n \t\r\n\x00 \u2028 </tool_call> </script>\r\n'


def request(*messages: Message, **fields: Any) -> Request:
    opening = (Message(speaker="system", text="You write kernels."), Message(speaker="user", text="Make it fast."))
    return Request(messages=(*opening, *messages), tools=(RUN, COMPILE), **fields)


def spec_of(wire: Wire) -> str:
    return f"{PROVIDER_OF[wire]}:some-model"


def connect(server: LlmServer, wire: Wire, effort: str = "", **changes: Any) -> ChatModel:
    return resolve(spec_of(wire) + effort, connections=server.connections(dialect="native", **changes))


@contextmanager
def a_model(kind: str, answers: list[Answer], folder: Path) -> Iterator[ChatModel]:
    """A model of that kind that says `answers`."""
    if kind in ("replay", "scripted"):
        replies = [as_reply(answer) for answer in answers]
        if kind == "scripted":
            yield ScriptedModel(replies)
            return
        file = folder / "replies.jsonl"
        file.write_text("".join(reply.model_dump_json() + "\n" for reply in replies), encoding="utf-8")
        yield resolve(f"replay:{file}")
        return
    written = {"json": as_json, "text": as_text}.get(kind)
    with LlmServer([Answer(written(a), stop=a.stop) for a in answers] if written else answers) as server:
        if written:
            yield resolve("openai-chat:weak", connections=server.connections(dialect=kind))
        else:
            yield connect(server, kind)  # type: ignore[arg-type]


def as_reply(answer: Answer) -> Reply:
    calls = tuple(ToolCall(id=f"c{i}", name=c.name, arguments=c.written) for i, c in enumerate(answer.calls))
    stop: Any = answer.ending
    return Reply(text=answer.text, tool_calls=calls, stop=stop, usage=Usage(input_tokens=100, output_tokens=20))


def as_json(answer: Answer) -> str:
    call = answer.calls[0] if answer.calls else None
    made = {"name": call.name, "arguments": json.loads(call.written)} if call else None
    return json.dumps({"say": answer.text, "call": made})


def as_text(answer: Answer) -> str:
    return "\n".join([answer.text, *(f"```tool {call.name}\n{call.written}\n```" for call in answer.calls)])


async def say(model: ChatModel, asked: Request | None = None) -> tuple[Reply, str]:
    """The reply, and the text that came in pieces."""
    pieces: list[str] = []
    try:
        return await model.reply(asked or request(), pieces.append), "".join(pieces)
    finally:
        await model.aclose()


# What a reply is.


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("text", ["Done.", "Ein Kern für π, 😀 und 漢字.", "a\nb\n\n```cpp\nint x;\n```\n\nc", ""])
async def test_a_text_is_a_text(kind: str, text: str, tmp_path: Path) -> None:
    with a_model(kind, [Answer(text)], tmp_path) as model:
        reply, pieces = await say(model)
    assert reply.text.strip() == text.strip() and pieces.strip() == text.strip()
    assert reply.tool_calls == () and reply.stop == "done"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 20)


@pytest.mark.parametrize("kind", EVERY)
async def test_a_tool_call_comes_with_its_arguments(kind: str, tmp_path: Path) -> None:
    with a_model(kind, [Answer("I run it.", (Call("run", {"candidates": [{"base": "a1"}]}),))], tmp_path) as model:
        reply, pieces = await say(model)
    assert reply.text == "I run it." == pieces.strip() and reply.stop == "tools"
    assert [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == [("run", {"candidates": [{"base": "a1"}]})]
    assert reply.tool_calls[0].id


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind != "json"])
async def test_parallel_calls_keep_their_order_and_ids(kind: str, tmp_path: Path) -> None:
    calls = tuple(Call("run", {"candidates": [{"defines": {"B": n}}]}) for n in range(4))
    with a_model(kind, [Answer(calls=calls)], tmp_path) as model:
        reply, _ = await say(model)
    assert [json.loads(call.arguments) for call in reply.tool_calls] == [call.arguments for call in calls]
    assert len({call.id for call in reply.tool_calls}) == 4


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("code", [ODD, "x" * 200_000 + ODD], ids=["odd", "long"])
async def test_code_arrives_byte_for_byte(kind: str, code: str, tmp_path: Path) -> None:
    with a_model(kind, [Answer(calls=(Call("run", {"candidates": [{"files": {"k.cpp": code}}]}),))], tmp_path) as model:
        reply, _ = await say(model)
    assert json.loads(reply.tool_calls[0].arguments)["candidates"][0]["files"] == {"k.cpp": code}


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind != "json"])
async def test_arguments_that_are_no_json_are_handed_over_as_they_came(kind: str, tmp_path: Path) -> None:
    with a_model(kind, [Answer(calls=(Call("run", '{"candidates": [oops'),))], tmp_path) as model:
        reply, _ = await say(model)
    assert reply.tool_calls[0].arguments == '{"candidates": [oops'


@pytest.mark.parametrize("kind", [*WIRES, "json", "text"])
async def test_half_an_emoji_is_replaced_before_anything_is_stored(kind: str, tmp_path: Path) -> None:
    arguments = '{"candidates": [{"files": {"k.cpp": "a\\ud83d b \\ud83d\\ude00"}}]}'
    with a_model(kind, [Answer("half \ud83d of one", (Call("run", arguments),))], tmp_path) as model:
        reply, pieces = await say(model)
    assert json.loads(reply.tool_calls[0].arguments)["candidates"][0]["files"] == {"k.cpp": "a\ufffd b 😀"}
    assert reply.text == pieces.strip() == "half \ufffd of one"
    reply.model_dump_json().encode()


@pytest.mark.parametrize("kind", EVERY)
async def test_a_text_that_is_cut_off_says_so(kind: str, tmp_path: Path) -> None:
    with a_model(kind, [Answer("I was about to", stop="length")], tmp_path) as model:
        reply, _ = await say(model)
    assert reply.stop == "length" and reply.text == "I was about to"


@pytest.mark.parametrize("kind", ["json", "text"])
async def test_a_written_call_that_is_cut_off_is_kept_but_marked(kind: str) -> None:
    written = {
        "json": '{"say": "I", "call": {"name": "run", "arguments": {"candidates": [{"files": {"k.cpp": "int ma',
        "text": 'I\n```tool run\n{"candidates": [{"files": {"k.cpp": "int ma',
    }[kind]
    with LlmServer([Answer(written, stop="length")]) as server:
        model = resolve("openai-chat:weak", connections=server.connections(dialect=kind))
        reply, _ = await say(model)
    assert reply.stop == "length" and reply.text == "I"
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [("run", '{"candidates": [{"files": {"k.cpp": "int ma')]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_that_is_cut_off_is_kept_but_marked(wire: Wire) -> None:
    answer = Answer(calls=(Call("run", {}), Call("run", '{"candidates": [{"files": {"k.cpp": "int ma')), stop="length")
    with LlmServer([answer]) as server:
        reply, _ = await say(connect(server, wire))
    assert reply.stop == "length" and reply.tool_calls[1].arguments == '{"candidates": [{"files": {"k.cpp": "int ma'


@pytest.mark.parametrize("wire", WIRES)
async def test_a_refusal_says_so(wire: Wire) -> None:
    with LlmServer([Answer("I can't help with CUDA.", stop="refused"), Answer(stop="refused")]) as server:
        model = connect(server, wire)
        reply, pieces = await say(model)
        silent, _ = await say(model)
    assert reply.stop == "refused" and reply.text == "I can't help with CUDA." == pieces
    assert silent.stop == "refused"


@pytest.mark.parametrize("kind", EVERY)
async def test_replies_come_one_after_the_other(kind: str, tmp_path: Path) -> None:
    with a_model(kind, [Answer("one"), Answer("two"), Answer("three")], tmp_path) as model:
        said = [(await model.reply(request())).text for _ in range(3)]
        await model.aclose()
    assert said == ["one", "two", "three"]


async def test_arguments_of_any_depth_are_answered_by_the_toolbox() -> None:
    """Python's own reader gives up on them in another way than on other JSON."""
    call = ToolCall(id="c", name="search", arguments="[" * 100_000)
    assert (await Toolbox(TOOLS["planner"], None).call(call)).fault == "invalid_json"


# What a model is told.


def thread() -> tuple[Message, ...]:
    calls = (
        ToolCall(id="c0", name="run", arguments='{"candidates": []}'),
        ToolCall(id="c1", name="compile", arguments="{}"),
    )
    return (
        Message(speaker="assistant", text="Both.", tool_calls=calls),
        Message(speaker="tool", text="1.5 ms", call="c0", label="run"),
        Message(speaker="tool", text="error: invalid_json", call="c1", failed=True, label="compile"),
        Message(speaker="assistant", text="Then this."),
        Message(speaker="user", text="Go on by calling `run`."),
    )


@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_is_told_in_full_and_in_order(wire: Wire) -> None:
    with LlmServer([Answer("ok")]) as server:
        await say(connect(server, wire), request(*thread()))
        body = server.requests[0].body
    check(wire, body)
    assert heard(wire, body) == [
        Heard("system", "You write kernels."),
        Heard("user", "Make it fast."),
        Heard("assistant", "Both."),
        Heard("call", '{"candidates": []}', "c0", "run"),
        Heard("call", "{}", "c1", "compile"),
        Heard("result", "1.5 ms", "c0"),
        Heard("result", "error: invalid_json", "c1", failed=wire == "messages"),
        Heard("assistant", "Then this."),
        Heard("user", "Go on by calling `run`."),
    ]
    assert body["model"] == "some-model" and body["stream"] is True
    offered = [tool.get("function", tool) for tool in body["tools"]]
    assert [tool["name"] for tool in offered] == ["run", "compile"]
    assert offered[0].get("parameters", offered[0].get("input_schema")) == RUN.parameters


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answered_call_is_known_again_in_the_next_request(wire: Wire) -> None:
    with LlmServer([Answer("I run.", (Call("run", {}), Call("compile", {}))), Answer("ok")]) as server:
        model = connect(server, wire)
        first, _ = await say(model)
        results = [Message(speaker="tool", text=f"result {c.name}", call=c.id) for c in first.tool_calls]
        await say(model, request(first.message, *results))
        body = server.requests[1].body
    check(wire, body)
    calls = [each for each in heard(wire, body) if each.kind == "call"]
    answers = {each.name: each.text for each in heard(wire, body) if each.kind == "result"}
    assert {call.tool: answers[call.name] for call in calls} == {"run": "result run", "compile": "result compile"}


@pytest.mark.parametrize("wire", WIRES)
async def test_reasoning_goes_back_unchanged_to_its_owner_alone(wire: Wire) -> None:
    with LlmServer(lambda _: Answer("I run.", (Call("run", {}),), reasoning="Let me think about π.")) as server:
        model = connect(server, wire, sends_reasoning_back=True)
        first, _ = await say(model)
        turn = request(first.message, Message(speaker="tool", text="ok", call=first.tool_calls[0].id))
        for other in WIRES:
            await say(connect(server, other, sends_reasoning_back=True), turn)
    assert first.opaque is not None and first.opaque.owner == PROVIDER_OF[wire]
    for sent in server.requests[1:]:
        check(sent.wire, sent.body)
        opaque = [each.text for each in heard(sent.wire, sent.body) if each.kind == "opaque"]
        assert bool(opaque) == (sent.wire == wire)
        kinds = [each.kind for each in heard(sent.wire, sent.body) if each.kind not in ("system", "user", "opaque")]
        assert kinds == ["assistant", "call", "result"]
    own = json.dumps(next(sent.body for sent in server.requests[1:] if sent.wire == wire), ensure_ascii=False)
    assert "Let me think about π." in own
    for seal in {"messages": ("sig-1", "hidden-1"), "responses": ("sealed-1",), "chat": ()}[wire]:
        assert seal in own


async def test_a_server_gets_its_reasoning_back_only_if_it_asks_for_it() -> None:
    with LlmServer(lambda _: Answer("ok", reasoning="hm")) as server:
        model = connect(server, "chat")
        first, _ = await say(model)
        await say(model, request(first.message, Message(speaker="user", text="go on")))
    assert "reasoning_content" not in json.dumps(server.requests[1].body)


async def test_reasoning_between_calls_keeps_its_place() -> None:
    items = ({"type": "thinking", "thinking": "a", "signature": "s"}, "text", {"type": "redacted_thinking"}, "call")
    said = Message(
        speaker="assistant",
        text="hm",
        tool_calls=(ToolCall(id="c0", name="run", arguments="{}"), ToolCall(id="c1", name="run", arguments="{}")),
        opaque=Opaque(owner="anthropic", items=items),
    )
    body = body_of("messages", request(said))
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        "thinking",
        "text",
        "redacted_thinking",
        "tool_use",
        "tool_use",
    ]


async def test_reasoning_that_is_not_taken_back_is_left_out_once() -> None:
    said = Message(speaker="assistant", text="hm", opaque=Opaque(owner="openai", items=({"type": "reasoning"},)))
    wording = "The encrypted content for item rs_1 could not be verified."
    with LlmServer([Answer("ok")]) as server:
        server.faults.append(
            breaks(
                "status", status=400, type="invalid_request_error", code="invalid_encrypted_content", message=wording
            )
        )
        reply, _ = await say(connect(server, "responses"), request(said, Message(speaker="user", text="go on")))
    assert reply.text == "ok"
    assert ["reasoning" in json.dumps(sent.body["input"]) for sent in server.requests] == [True, False]


@pytest.mark.parametrize("wire", WIRES)
async def test_effort_and_reply_bound_are_said_in_the_wires_words(wire: Wire) -> None:
    with LlmServer(lambda _: Answer("ok")) as server:
        await say(connect(server, wire, "@high", output=4_000), request(reply_tokens=9_000))
        await say(connect(server, wire), request(reply_tokens=9_000))
    high, plain = (sent.body for sent in server.requests)
    effort: dict[Wire, Any] = {
        "messages": high.get("output_config", {}).get("effort"),
        "responses": high.get("reasoning", {}).get("effort"),
        "chat": high.get("reasoning_effort"),
    }
    field = {"messages": "max_tokens", "responses": "max_output_tokens", "chat": "max_tokens"}[wire]
    assert effort[wire] == "high" and high[field] == 4_000 and plain[field] == 9_000
    assert not {"output_config", "thinking", "reasoning", "reasoning_effort"} & set(plain)
    if wire == "messages":
        assert high["thinking"] == {"type": "adaptive"}


async def test_each_wire_asks_for_its_provider_s_cache() -> None:
    bodies = {wire: body_of(wire, request(*thread(), cache_key="run-coder")) for wire in WIRES}
    assert bodies["responses"]["prompt_cache_key"] == "run-coder" and bodies["responses"]["store"] is False
    marked = [
        block
        for blocks in (bodies["messages"]["system"], *(m["content"] for m in bodies["messages"]["messages"]))
        for block in blocks
        if "cache_control" in block
    ]
    assert [block.get("text") for block in marked] == ["You write kernels.", "Make it fast.", "Go on by calling `run`."]


@pytest.mark.parametrize("wire", WIRES)
def test_a_longer_thread_has_the_shorter_one_as_its_prefix(wire: Wire) -> None:
    """Else no prompt cache would hit."""
    steps = [
        *thread(),
        Message(speaker="assistant", text="more", tool_calls=(ToolCall(id="c0", name="x y", arguments="["),)),
    ]
    steps += [Message(speaker="tool", text="late", call="c0"), Message(speaker="assistant", text="end")]
    before: list[Heard] = []
    for length in (0, 3, 5, 7, 8):
        told = heard(wire, body_of(wire, request(*steps[:length])))
        assert told[: len(before)] == before
        before = told


# Histories that no provider would take as they are.


def body_of(wire: Wire, asked: Request) -> dict[str, Any]:
    spec = ModelSpec(provider=PROVIDER_OF[wire], model="some-model")
    return ADAPTERS[wire](spec, Connection(wire=wire, base_url="http://127.0.0.1:1/v1")).body(asked)


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_without_a_result_is_said_not_to_have_been_made(wire: Wire) -> None:
    calls = (ToolCall(id="a", name="run", arguments="{}"), ToolCall(id="b", name="run", arguments="{}"))
    said = Message(speaker="assistant", text="", tool_calls=calls)
    body = body_of(wire, request(said, Message(speaker="tool", text="late", call="b")))
    check(wire, body)
    results = [(each.name, each.text) for each in heard(wire, body) if each.kind == "result"]
    assert results == [("a", NOT_RUN), ("b", "late")]


@pytest.mark.parametrize("wire", WIRES)
def test_a_result_without_its_call_is_told_as_a_text(wire: Wire) -> None:
    body = body_of(wire, request(Message(speaker="tool", text="1.5 ms", call="gone", label="run")))
    check(wire, body)
    assert heard(wire, body)[-1].kind == "user" and "1.5 ms" in heard(wire, body)[-1].text


@pytest.mark.parametrize("wire", WIRES)
def test_ids_and_names_of_another_provider_are_made_to_fit(wire: Wire) -> None:
    odd = "functions.run:0|" + "x" * 80 + "\n"
    said = [
        Message(speaker="assistant", text="", tool_calls=(ToolCall(id=odd, name="no such.tool!", arguments="{}"),)),
        Message(speaker="tool", text="1", call=odd),
    ]
    body = body_of(wire, request(*said, *said))
    check(wire, body)
    assert body == body_of(wire, request(*said, *said))
    assert [each.text for each in heard(wire, body) if each.kind == "result"] == ["1", "1"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "arguments", ["{oops", "[1]", "NaN", '{"a": NaN}', "", "null", '{"a": "\\ud83d"}', "\ud83d", "[" * 9999]
)
def test_arguments_of_any_kind_go_back_as_an_object(wire: Wire, arguments: str) -> None:
    said = Message(speaker="assistant", text="", tool_calls=(ToolCall(id="c", name="run", arguments=arguments),))
    body = body_of(wire, request(said))
    check(wire, body)
    value = json.loads(next(each.text for each in heard(wire, body) if each.kind == "call"))
    assert set(value) <= {UNPARSED, "a"}


TEXTS = st.text(max_size=12) | st.sampled_from(["", " ", "\ud83d", "c0", "c1", "{}", '{"a": 1}'])
CALLS = st.builds(ToolCall, id=st.sampled_from(["c0", "c1", "ö", "c0 "]) | TEXTS, name=TEXTS, arguments=TEXTS)
OPAQUE = st.builds(
    Opaque,
    owner=st.sampled_from(list(PROVIDER_OF.values())),
    items=st.lists(st.sampled_from([{"type": "redacted_thinking", "data": "x"}, "text", "call"]), max_size=3).map(
        tuple
    ),
)
MESSAGES = st.lists(
    st.builds(
        Message,
        speaker=st.sampled_from(["system", "user", "assistant", "tool"]),
        text=TEXTS,
        tool_calls=st.lists(CALLS, max_size=3).map(tuple),
        call=st.none() | st.sampled_from(["c0", "c1", "ö"]) | TEXTS,
        failed=st.booleans(),
        opaque=st.none() | OPAQUE,
    ),
    max_size=10,
)


@pytest.mark.parametrize("wire", WIRES)
@given(messages=MESSAGES)
@settings(max_examples=60, deadline=None)
def test_any_history_becomes_a_request_that_the_wire_allows(wire: Wire, messages: list[Message]) -> None:
    check(wire, body_of(wire, Request(messages=(*request().messages, *messages), tools=(RUN,))))


# Money, speed and manners.


@pytest.mark.parametrize("wire", WIRES)
async def test_usage_is_what_the_server_reported(wire: Wire) -> None:
    script = [
        Answer("a", tokens=Tokens(1000, 50, cached=700, cache_write=200, reasoning=30)),
        Answer("b", tokens=Tokens(1200, 10, cached=900)),
        Answer("c", tokens=Tokens(5, 1)),
    ]
    with LlmServer(script) as server:
        model = connect(server, wire)
        usages = [(await model.reply(request())).usage for _ in script]
        await model.aclose()
        total = server.total
    sums = [sum(getattr(usage, f"{name}_tokens") for usage in usages) for name in ("input", "output", "cached")]
    assert sums == [total.input, total.output, total.cached]
    assert sum(usage.reasoning_tokens for usage in usages) == total.reasoning
    assert sum(usage.cache_write_tokens for usage in usages) == total.cache_write
    assert not any(usage.estimated or usage.dollars is not None for usage in usages)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_reports_nothing_is_estimated(wire: Wire) -> None:
    with LlmServer([Answer("x" * 300, tokens=None)]) as server:
        reply, _ = await say(connect(server, wire))
    assert reply.usage.estimated and reply.usage.output_tokens == 100 and reply.usage.input_tokens > 20


@pytest.mark.parametrize("wire", WIRES)
async def test_the_server_s_window_is_found(wire: Wire) -> None:
    with LlmServer(window=64_000) as server:
        model = resolve(f"{PROVIDER_OF[wire]}:m", connections=server.connections())
        assert await model.probe() == 64_000  # type: ignore[attr-defined]
        await model.aclose()


@pytest.mark.parametrize("wire", WIRES)
async def test_cancelling_closes_the_connection(wire: Wire) -> None:
    with LlmServer() as server:
        server.faults.append(breaks("stall"))
        model, heard_something = connect(server, wire, timeout=30.0), asyncio.Event()
        task = asyncio.create_task(model.reply(request(), lambda _: heard_something.set()))
        await heard_something.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.requests[0].left.wait, 10)
        await model.aclose()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_closed_model_holds_no_connection_and_can_be_used_again(wire: Wire) -> None:
    with LlmServer(lambda _: Answer("ok")) as server:
        model = connect(server, wire)
        for _ in range(2):
            assert (await model.reply(request())).text == "ok"
            await model.aclose()
            assert await asyncio.to_thread(server.all_closed)
        await model.aclose()


@pytest.mark.parametrize("wire", WIRES)
async def test_the_key_is_sent_and_shown_nowhere(wire: Wire) -> None:
    with LlmServer([Answer("ok")]) as server:
        server.faults.append(breaks("status", status=401, message=f"Incorrect API key provided: {KEY}."))
        model = connect(server, wire)
        with pytest.raises(ModelError) as caught:
            await model.reply(request())
        await say(model)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in f"{caught.value} {caught.value!r} {model!r} {server.connection(wire)!r}"
    assert caught.value.__cause__ is None and caught.value.fault == "auth"


async def test_a_paused_reply_goes_on_and_is_paid_in_full() -> None:
    with LlmServer([Answer("One ", stop="pause"), Answer("two.")]) as server:
        reply, pieces = await say(connect(server, "messages"))
    assert reply.text == pieces == "One two." and reply.stop == "done"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (200, 40)
    assert server.requests[1].body["messages"][-1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "One "}],
    }


async def test_a_reply_that_fills_the_window_is_an_overflow() -> None:
    with LlmServer([Answer("half", stop="window")]) as server, pytest.raises(ModelError) as caught:
        await say(connect(server, "messages"))
    assert caught.value.fault == "overflow" and caught.value.usage is not None


async def test_thoughts_that_a_server_leaves_in_the_text_are_taken_out() -> None:
    with LlmServer(
        [Answer("<think>\nLet me call </tool>.\n</think>\n\nDone."), Answer("<thinner> is no thought")]
    ) as server:
        model = connect(server, "chat")
        first, pieces = await say(model)
        second, _ = await say(model)
    assert first.text == pieces == "Done." and second.text == "<thinner> is no thought"


async def test_calls_that_a_server_leaves_in_the_text_are_made() -> None:
    text = 'I run.\n<tool_call>\n{"name": "run", "arguments": {"candidates": []}}\n</tool_call>'
    with LlmServer([Answer(text), Answer('<tool_call>{"name": "rm", "arguments": {}}</tool_call>')]) as server:
        model = connect(server, "chat")
        reply, _ = await say(model)
        unknown, _ = await say(model)
    assert reply.text == "I run." and reply.stop == "tools" and reply.tool_calls[0].name == "run"
    assert unknown.tool_calls == () and unknown.stop == "done"


def test_a_model_can_be_named_without_loading_an_sdk() -> None:
    code = (
        "import sys; from agents.models.registry import resolve; from agents.models.connections import Connections;"
        "resolve('openai:m', connections=Connections.from_environment({'OPENAI_API_KEY': 'k'}));"
        "print(sorted({'openai', 'anthropic', 'httpx2', 'tiktoken'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The same against llmock, which others wrote.

MOCKED = {"responses": ("openai", "openai"), "chat": ("openai-chat", "openai"), "messages": ("anthropic", "anthropic")}


def against(llmock: Any, wire: Wire, **changes: Any) -> ChatModel:
    provider, mocked = MOCKED[wire]
    address = llmock.base_url(mocked)
    connection = BUILT_IN[provider].model_copy(update={"base_url": address, "key": SecretStr("any"), **changes})
    return resolve(f"{provider}:some-model", connections=Connections(providers={provider: connection}))


@pytest.mark.parametrize("wire", WIRES)
async def test_llmock_s_text_calls_and_usage_are_understood(llmock: Any, wire: Wire) -> None:
    model = against(llmock, wire)
    llmock.reply("It says π.")
    text, pieces = await say(model)
    llmock.call_tool("run", {"candidates": [{"base": "a1"}]})
    call, _ = await say(model)
    result = Message(speaker="tool", text="1.5 ms", call=call.tool_calls[0].id)
    llmock.reply("Judged.")
    after, _ = await say(model, request(call.message, result))
    assert text.text == pieces == "It says π." and text.stop == "done" and text.usage.input_tokens > 0
    assert json.loads(call.tool_calls[0].arguments) == {"candidates": [{"base": "a1"}]} and call.stop == "tools"
    assert after.text == "Judged."
    llmock.assert_resilient()


@pytest.mark.parametrize("wire", WIRES)
async def test_llmock_s_faults_are_told_apart(llmock: Any, wire: Wire) -> None:
    faults = {
        "rate_limit": (lambda: llmock.rate_limit(retry_after=3), "transient"),
        "outage": (lambda: llmock.fail(503), "transient"),
        "auth": (lambda: llmock.fail(401), "auth"),
        "overflow": (llmock.context_overflow, "overflow"),
        "disconnect": (lambda: llmock.disconnect(after_chunks=2), "transient"),
        "truncate": (lambda: llmock.truncate(after_chunks=2), "transient"),
        "corrupt": (lambda: llmock.corrupt(after_chunks=2), "transient"),
        "stall": (lambda: llmock.stall(after_chunks=2, seconds=3), "transient"),
    }
    found: dict[str, tuple[str, float | None]] = {}
    model = against(llmock, wire, timeout=0.5)
    for name, (prepare, _) in faults.items():
        prepare()
        with pytest.raises(ModelError) as caught:
            await model.reply(request())
        found[name] = caught.value.fault, caught.value.retry_after
        llmock.reset()
    await model.aclose()
    assert {name: fault for name, (fault, _) in found.items()} == {name: fault for name, (_, fault) in faults.items()}
    assert found["rate_limit"][1] == 3.0
