"""Tools in JSON and in plain text: what weak models and servers make of them is read leniently, and never raises."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.models.base import Dialect, Message, Request, ToolCall, ToolSpec
from agents.models.dialect import LADDER, SPEECHES, translated
from agents.models.registry import resolve
from agents.models.text_dialect import written
from agents.models.written_calls import object_in, tagged
from tests.llm_heard import check, heard
from tests.llm_server import Answer, LlmServer, status

CANDIDATE = {
    "type": "object",
    "properties": {
        "base": {"type": "string"},
        "files": {"type": "object", "additionalProperties": {"type": "string"}},
        "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
    },
    "additionalProperties": False,
}
EDIT = {"type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]}
RUN = ToolSpec(
    name="run",
    description="Measures candidates.",
    parameters={
        "type": "object",
        "properties": {
            "mode": {"type": "string"},
            "candidates": {"type": "array", "items": {"$ref": "#/$defs/Candidate"}},
        },
        "required": ["mode"],
        "$defs": {"Candidate": CANDIDATE, "Edit": EDIT},
    },
)
COMPILE = ToolSpec(
    name="compile",
    description="Builds one.",
    parameters={
        "type": "object",
        "properties": {"candidate": {"$ref": "#/$defs/Candidate"}},
        "$defs": {"Candidate": CANDIDATE, "Edit": EDIT},
    },
)
SEARCH = ToolSpec(name="search", description="Finds.", parameters={"type": "object", "properties": {"query": {}}})
TOOLS = (RUN, COMPILE, SEARCH)
CODE = '#include "task.h"\n// ``` in a comment, "quotes" and \\n\n```\nint main() { return 0; }\n'


def read(dialect: Dialect, text: str, cut: bool = False) -> tuple[str, list[tuple[str, Any]]]:
    """What a reply says, and its calls with their arguments as values where they are JSON."""
    said, calls = SPEECHES[dialect].read(text, TOOLS, cut)
    return said, [(call.name, value_of(call.arguments)) for call in calls]


def value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# Plain text.


def test_a_block_is_a_call_and_the_files_after_it_are_its_candidate_s() -> None:
    text = (
        'I try wider loads.\n\n```tool run\n{"mode": "full", "candidates": [{"base": "a1"}]}\n```\n'
        f"````file kernel.cpp\n{CODE}````\n```file util.h\n#pragma once\n```\nThat is all."
    )
    said, calls = read("text", text)
    files = {"kernel.cpp": CODE.removesuffix("\n"), "util.h": "#pragma once"}
    assert calls == [("run", {"mode": "full", "candidates": [{"base": "a1", "files": files}]})]
    assert said == "I try wider loads.\n\nThat is all."


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('tool run\n{"mode": "full"}', ("run", {"mode": "full", "candidates": [{"files": {"k.cpp": "x"}}]})),
        ("tool compile\n", ("compile", {"candidate": {"files": {"k.cpp": "x"}}})),
        (
            'tool run\n{"mode": "quick", "candidates": [{"files": {"a.cpp": "@k.cpp"}}, {"base": "a2"}]}',
            ("run", {"mode": "quick", "candidates": [{"files": {"a.cpp": "x"}}, {"base": "a2"}]}),
        ),
        ('tool search\n{"query": "@k.cpp"}', ("search", {"query": "x"})),
        ('tool search\n{"query": "@other"}', ("search", {"query": "@other"})),
    ],
)
def test_a_file_goes_where_the_call_names_it_or_takes_it(body: str, expected: tuple[str, Any]) -> None:
    assert read("text", f"```{body}\n```\n```file k.cpp\nx\n```")[1] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        '```tool run\n{"mode": "full"}\n```',
        '```tool: run\n{"mode": "full"}\n```',
        '  ````tool   run  \r\n{"mode": "full"}\r\n````\r\n',
        '```tool "run"\n{"mode": "full"}\n',
        '```tool run()\n{"mode": "full"}\n```',
        '<think>```tool search\n{}\n```</think>```tool run\n{"mode": "full"}\n```',
        '<tool_call>\n{"name": "run", "arguments": {"mode": "full"}}\n</tool_call>',
        '<tool_call>{"name": "run", "arguments": "{\\"mode\\": \\"full\\"}"}</tool_call>',
        '```json\n{"name": "run", "parameters": {"mode": "full"}}\n```',
        '{"function": {"name": "run", "arguments": {"mode": "full"}}}',
        '{"tool": "run", "args": {"mode": "full"}}',
    ],
)
def test_a_call_is_understood_in_many_spellings(text: str) -> None:
    assert read("text", text) == ("", [("run", {"mode": "full"})])


def test_a_line_end_within_a_json_string_is_forgiven() -> None:
    _, calls = read("text", '```tool search\n{"query": "two\nlines"}\n```')
    assert calls == [("search", {"query": "two\nlines"})]


def test_several_calls_keep_their_order_and_their_files() -> None:
    text = "".join(f"```tool compile\n```\n```file k.cpp\n{n}\n```\n" for n in range(3))
    assert read("text", text)[1] == [("compile", {"candidate": {"files": {"k.cpp": str(n)}}}) for n in range(3)]


@pytest.mark.parametrize(
    "text",
    [
        "Just words about `tool run`.",
        "```cpp\nint x;\n```",
        "````md\nCall it so:\n```tool run\n{}\n```\n````",
        "```file kernel.cpp\nint x;\n```",
        "```tool\n{}\n```",
        '{"name": "rm", "arguments": {}}',
        "",
    ],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert read("text", text) == (text, [])


def test_an_unknown_tool_and_broken_json_are_handed_on_to_be_answered() -> None:
    assert read("text", "```tool rm\n{}\n```")[1] == [("rm", {})]
    assert read("text", '```tool run\n{"mode": oops}\n```')[1] == [("run", '{"mode": oops}')]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=30)
    | st.sampled_from([CODE, "@k.cpp", "a\n", "\n```\n"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6) | st.sampled_from(["files", "k.cpp", "candidates"]), inner, max_size=3)
    ),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["mode", "files", "candidates", "k.cpp", "x"]), JSON, max_size=4)


@given(ARGUMENTS)
@settings(max_examples=200, deadline=None)
def test_what_a_model_is_shown_of_its_calls_reads_back_as_them(arguments: dict[str, Any]) -> None:
    """So it is shown the format as it should have written it, whatever it called."""
    assert read("text", f"Hm.\n\n{written('run', arguments)}") == ("Hm.", [("run", arguments)])
    reply = json.dumps({"say": "Hm.", "call": {"name": "run", "arguments": arguments}})
    assert read("json", reply) == ("Hm.", [("run", arguments)])


MARKS = (
    '``` ```` tool·run file·k.cpp \n \r\n · { } " [ ] : , \\ \\u d83d "say":·" "call":· "name":·"run" "arguments":· '
    "<tool_call> </tool_call> <think> </think> null x \x00 😀 \ud83d ` ```tool·run\n @k.cpp ~~~"
)
HOSTILE = st.lists(st.sampled_from([mark.replace("·", " ") for mark in MARKS.split(" ")]), max_size=40).map("".join)


@pytest.mark.parametrize("dialect", ["json", "text"])
@given(text=HOSTILE, cut=st.booleans(), cuts=st.lists(st.integers(0, 200), max_size=6))
@settings(max_examples=200, deadline=None)
def test_hostile_text_is_read_and_heard_without_a_fault(
    dialect: Dialect, text: str, cut: bool, cuts: list[int]
) -> None:
    said, _ = SPEECHES[dialect].read(text, TOOLS, cut)
    heard_pieces: list[str] = []
    listening = SPEECHES[dialect].listen(heard_pieces.append)
    edges = [0, *sorted(cuts), len(text)]
    for start, end in itertools.pairwise(edges):
        listening.add(text[start:end])
    listening.end(said)
    assert isinstance(said, str)


@pytest.mark.parametrize("dialect", ["json", "text"])
@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "[" * 100_000,
        '{"a":' * 20_000,
        "<tool_call>" * 20_000,
        "```" + " " * 100_000 + "`",
        "`" * 100_000,
        '"say"' * 9_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_long_hostile_text_is_read_in_one_pass(dialect: Dialect, text: str) -> None:
    assert read(dialect, text)[1] == []


@pytest.mark.parametrize("pieces", [1, 3, 10_000])
def test_what_streams_is_what_is_said(pieces: int) -> None:
    text = 'First π.\n\n```tool run\n{"mode": "full"}\n```\n```file k.cpp\nsecret\n```\nThen ``` this.\n'
    reply = json.dumps({"say": 'A "quote", π, 😀,\n\ttab', "call": {"name": "run", "arguments": {}}})
    for dialect, whole in (("text", text), ("json", reply)):
        heard_pieces: list[str] = []
        listening = SPEECHES[dialect].listen(heard_pieces.append)  # type: ignore[index]
        for start in range(0, len(whole), pieces):
            listening.add(whole[start : start + pieces])
        said, _ = SPEECHES[dialect].read(whole, TOOLS, False)  # type: ignore[index]
        listening.end(said)
        assert "".join(heard_pieces).strip() == said.strip()


# JSON.


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ('{"say": "hi", "call": null}', "hi", []),
        ('{"say": "hi", "call": {"name": "run", "arguments": {"mode": "full"}}}', "hi", [("run", {"mode": "full"})]),
        ('```json\n{"say": "hi", "call": {"name": "run"}}\n```', "hi", [("run", {})]),
        ('Sure! {"say": "hi", "call": {"name": "rm", "arguments": {}}} Bye.', "hi", [("rm", {})]),
        ('{"call": {"name": "run", "arguments": "{\\"mode\\": 1}"}}', "", [("run", {"mode": 1})]),
        ('{"name": "run", "arguments": {"mode": 1}}', "", [("run", {"mode": 1})]),
        ('{"say": 7, "call": 7}', "", []),
        ('{"say": "two\nlines", "call": null}', "two\nlines", []),
        ("No JSON at all.", "No JSON at all.", []),
        (
            'In C++ {} is an empty block; {"mode"} is none of ours.',
            'In C++ {} is an empty block; {"mode"} is none of ours.',
            [],
        ),
        ('<tool_call>{"name": "run", "arguments": {}}</tool_call>', "", [("run", {})]),
    ],
)
def test_a_json_reply_is_read_leniently(text: str, said: str, calls: list[tuple[str, Any]]) -> None:
    assert read("json", text) == (said, calls)


def test_the_schema_holds_a_reply_to_the_tools() -> None:
    schema: Any = SPEECHES["json"].schema(TOOLS)
    assert schema["required"] == ["say", "call"] and schema["additionalProperties"] is False
    nothing, *calls = schema["properties"]["call"]["anyOf"]
    assert nothing == {"type": "null"}
    assert [call["properties"]["name"]["enum"] for call in calls] == [["run"], ["compile"], ["search"]]
    assert calls[0]["properties"]["arguments"]["required"] == ["mode"]
    written_out = json.dumps(schema)
    references = set(re.findall(r'"\$ref": "#/\$defs/(\w+)"', written_out))
    assert references == set(schema["$defs"]) and written_out.count('"$defs"') == 1
    assert "$defs" in RUN.parameters, "the tool's own schema is left alone"


# Both, as a model's requests and replies.


def asked(*messages: Message, dialect: Dialect | None = None) -> Request:
    opening = (Message(speaker="system", text="You write."), Message(speaker="user", text="Make it fast."))
    return Request(messages=(*opening, *messages), tools=TOOLS, dialect=dialect)


def history() -> tuple[Message, ...]:
    calls = (
        ToolCall(id="a", name="run", arguments='{"mode": "full"}'),
        ToolCall(id="b", name="search", arguments="{oops"),
    )
    return (
        Message(speaker="assistant", text="Both.", tool_calls=calls),
        Message(speaker="tool", text="1.5 ms", call="a"),
        Message(speaker="user", text="Go on."),
    )


@pytest.mark.parametrize("dialect", ["json", "text"])
async def test_tools_calls_and_results_are_told_as_text(dialect: Dialect) -> None:
    with LlmServer([Answer("ok")]) as server:
        model = resolve("openai-chat:m", connections=server.connections())
        await model.reply(asked(*history(), dialect=dialect))
        await model.aclose()
        body = server.requests[0].body
    check("chat", body)
    told = heard("chat", body)
    assert "tools" not in body and {each.kind for each in told} == {"system", "user", "assistant"}
    assert ("response_format" in body) == (dialect == "json")
    assert all(f"## {tool.name}" in told[0].text and tool.description in told[0].text for tool in TOOLS)
    text = "\n".join(each.text for each in told[1:])
    assert "Result of `run`:\n1.5 ms" in text and "not_run" in text and text.rstrip().endswith("Go on.")
    said = [each.text for each in told if each.kind == "assistant"]
    assert read(dialect, said[0])[0] == "Both." and read(dialect, said[0])[1][0] == ("run", {"mode": "full"})


def test_the_manual_is_the_same_in_every_request_of_a_role() -> None:
    first = translated(asked(), SPEECHES["text"]).messages[0]
    assert first == translated(asked(*history()), SPEECHES["text"]).messages[0]


def test_the_manual_s_own_examples_are_calls() -> None:
    said, calls = read("text", SPEECHES["text"].manual(()))
    assert calls[0] == ("search", {"query": "shared memory"})
    assert calls[1] == (
        "run",
        {"mode": "full", "candidates": [{"files": {"kernel.cpp": "// the whole file, as it is"}}]},
    )
    assert "Write source code" in said


async def test_the_next_dialect_is_spoken_when_the_server_can_t() -> None:
    with LlmServer([Answer('```tool search\n{"query": "x"}\n```'), Answer("ok")]) as server:
        server.faults.append(status(400, message="m does not support tools"))
        server.faults.append(status(400, message="response_format is not supported"))
        model = resolve("openai-chat:m", connections=server.connections())
        reply = await model.reply(asked())
        again = await model.reply(asked())
        await model.aclose()
    assert reply.dialect == again.dialect == "text" and reply.tool_calls[0].name == "search"
    sent = [
        "tools" if "tools" in r.body else "schema" if "response_format" in r.body else "text" for r in server.requests
    ]
    assert sent == ["tools", "schema", "text", "text"]


async def test_a_dialect_that_a_person_chose_stays() -> None:
    with LlmServer([Answer('{"say": "a", "call": null}')]) as server:
        model = resolve("openai-chat:m", connections=server.connections(dialect="json"))
        reply = await model.reply(asked(dialect="text"))
        await model.aclose()
    assert model.dialects == ("json",) and reply.dialect == "json" and reply.text == "a"


async def test_a_model_begins_with_native_tools_and_offers_all_others() -> None:
    with LlmServer([Answer("ok")]) as server:
        model = resolve("openai-chat:m", connections=server.connections())
        reply = await model.reply(asked())
        await model.aclose()
    assert model.dialects == LADDER and reply.dialect == "native"


async def test_ids_of_written_calls_are_new_in_the_conversation() -> None:
    with LlmServer(lambda _: Answer("```tool search\n{}\n```\n```tool search\n{}\n```")) as server:
        model = resolve("openai-chat:m", connections=server.connections(dialect="text"))
        first = await model.reply(asked())
        results = [Message(speaker="tool", text="r", call=call.id) for call in first.tool_calls]
        second = await model.reply(asked(first.message, *results))
        await model.aclose()
    assert len({call.id for call in (*first.tool_calls, *second.tool_calls)}) == 4


def test_only_offered_tools_are_taken_out_of_tags() -> None:
    text = '<tool_call>{"name": "rm"}</tool_call> and <tool_call>{"name": "run"}</tool_call>'
    said, calls = tagged(text, ["run"])
    assert said == '<tool_call>{"name": "rm"}</tool_call> and' and [call.name for call in calls] == ["run"]


def test_an_object_is_found_within_words() -> None:
    assert object_in('for (;;) { x } then {"a": {"b": 1}}') == {"a": {"b": 1}}
