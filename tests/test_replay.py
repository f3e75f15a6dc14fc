"""`replay:PATH`: recordings of our own runs and files of replies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.models.base import Message, ModelUnavailable, Opaque, Reply, Request, ToolCall, ToolSpec, Usage
from agents.models.registry import UnknownModel, resolve
from memory.history import Transcript


def tools(*names: str) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(name=name, description="", parameters={"type": "object"}) for name in names)


TOOLS = {
    "planner": tools("propose", "search"),
    "coder": tools("run", "compile"),
    "analyst": tools("diagnose", "profile"),
    "summary": (),
}


def opens(role: str, ask: str = "What now?") -> Request:
    opening = (Message(speaker="system", text=role), Message(speaker="user", text=ask, label="ask"))
    return Request(messages=opening, tools=TOOLS[role])


def goes_on(request: Request, *replies: Reply) -> Request:
    return request.model_copy(update={"messages": (*request.messages, *(reply.message for reply in replies))})


def says(text: str, tool: str | None = None) -> Reply:
    calls = (ToolCall(id="c", name=tool, arguments='{"π": "😀\u2028"}'),) if tool else ()
    return Reply(
        text=text,
        tool_calls=calls,
        usage=Usage(input_tokens=10, output_tokens=2, dollars=0.5),
        stop="tools" if tool else "done",
        opaque=Opaque(owner="openai", items=({"type": "reasoning"},)),
        model="openai:m",
    )


def record(run: Path, name: str, *replies: Reply) -> None:
    """As a turn writes itself down."""
    transcript = Transcript(run / "transcript" / f"{name}.jsonl")
    transcript.add({"speaker": "user", "label": "ask", "blob": "0" * 32})
    for reply in replies:
        transcript.add({"speaker": "assistant", **reply.model_dump(mode="json", exclude={"opaque"})})
        transcript.add({"speaker": "tool", "call": "c", "tool": "run", "text": '{"speaker": "assistant"}'})


async def test_a_run_s_turns_are_played_to_the_roles_they_belong_to(tmp_path: Path) -> None:
    record(tmp_path, "0001-planner", says("p1", "propose"))
    record(tmp_path, "0001-coder-0", says("c1", "run"), says("c1 done"))
    record(tmp_path, "0001-coder-0-summary", says("in short"))
    record(tmp_path, "0001-analyst", says("a1", "diagnose"))
    record(tmp_path, "0002-planner", says("p2", "propose"))
    record(tmp_path, "0010-planner", says("p10", "propose"))
    for path in (tmp_path, tmp_path / "transcript"):
        model = resolve(f"replay:{path}")
        assert [(await model.reply(opens("planner", ask))).text for ask in "123"] == ["p1", "p2", "p10"]
        coder = opens("coder")
        first = await model.reply(coder)
        assert first.tool_calls == says("", "run").tool_calls and first.stop == "tools"
        assert (await model.reply(goes_on(coder, first))).text == "c1 done"
        assert (await model.reply(opens("summary"))).text == "in short"
        assert (await model.reply(opens("analyst"))).text == "a1"


async def test_turns_that_run_side_by_side_keep_to_their_own_lines(tmp_path: Path) -> None:
    record(tmp_path, "0001-coder-0", says("a1"), says("a2"))
    record(tmp_path, "0001-coder-1", says("b1"), says("b2"))
    model = resolve(f"replay:{tmp_path}")
    left, right = opens("coder", "idea 1"), opens("coder", "idea 2")
    a1, b1 = await model.reply(left), await model.reply(right)
    b2, a2 = await model.reply(goes_on(right, b1)), await model.reply(goes_on(left, a1))
    assert [reply.text for reply in (a1, a2, b1, b2)] == ["a1", "a2", "b1", "b2"]


async def test_a_replayed_reply_costs_nothing_and_says_who_it_is(tmp_path: Path) -> None:
    record(tmp_path, "0001-coder-0", says("hi"))
    model = resolve(f"replay:{tmp_path}")
    pieces: list[str] = []
    reply = await model.reply(opens("coder"), pieces.append)
    assert reply.usage == Usage(input_tokens=10, output_tokens=2, dollars=0.0)
    assert reply.model == model.name == f"replay:{tmp_path}" and reply.opaque is None and pieces == ["hi"]


async def test_the_end_of_a_recording_says_so(tmp_path: Path) -> None:
    record(tmp_path, "0001-coder-0", says("only"))
    model = resolve(f"replay:{tmp_path}")
    coder = opens("coder")
    only = await model.reply(coder)
    for request in (goes_on(coder, only), opens("coder"), opens("planner")):
        with pytest.raises(ModelUnavailable, match="no further reply"):
            await model.reply(request)


async def test_a_file_of_replies_goes_to_the_roles_by_name_or_by_tool(tmp_path: Path) -> None:
    lines = [
        {"text": "plan", "tool_calls": [{"id": "1", "name": "propose", "arguments": "{}"}]},
        {"text": "code"},
        {"role": "analyst", "text": "read"},
        {"role": "planner", "text": "again", "unknown": "is left out"},
    ]
    file = tmp_path / "replies.jsonl"
    file.write_text("\n\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    model = resolve(f"replay:{file}")
    played = [(await model.reply(opens(role))).text for role in ("coder", "planner", "analyst", "planner")]
    assert played == ["code", "plan", "read", "again"]


async def test_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    record(tmp_path, "0001-coder-0", says("whole"))
    with (tmp_path / "transcript" / "0001-coder-0.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"speaker": "assistant", "text": "to')
    assert (await resolve(f"replay:{tmp_path}").reply(opens("coder"))).text == "whole"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "can't be read"),
        (b"", "holds no reply"),
        (b'{"speaker": "tool", "text": "x"}\n', "holds no reply"),
        (b'{"text": 7}\n{"text": "x"}\n', "line 1"),
        (b'{"text": "x"}\n[1]\n{"text": "x"}\n', "line 2"),
        (b"\xff\xfe", "can't be read"),
    ],
)
def test_a_recording_that_is_none_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    file = tmp_path / "r.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UnknownModel, match=words):
        resolve(f"replay:{file}")


def test_an_empty_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="holds no reply"):
        resolve(f"replay:{tmp_path}")
