"""What a provider is told, for tests: a request of any wire in one neutral form, and what the wire demands of it.

Shares no code with the adapters.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, NamedTuple

from tests.llm_frames import Wire


class Heard(NamedTuple):
    """`kind`: system, user, assistant, call, result or opaque. `name` is a call's id for calls and results."""

    kind: str
    text: str
    name: str = ""
    tool: str = ""
    failed: bool = False


def heard(wire: Wire, body: dict[str, Any]) -> list[Heard]:
    """The conversation in a request, in the order in which it stands there."""
    return {"messages": _messages, "responses": _responses, "chat": _chat}[wire](body)


def check(wire: Wire, body: dict[str, Any]) -> None:
    """Assert what the provider would turn the request down for."""
    json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    told = heard(wire, body)
    waiting: list[str] = []
    seen: set[str] = set()
    for each in told:
        if each.kind == "call":
            assert each.name not in seen and re.fullmatch(r"[\x21-\x7e]{1,64}", each.name)
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each.tool)
            assert isinstance(json.loads(each.text), dict)
            seen.add(each.name)
            waiting.append(each.name)
        elif each.kind == "result":
            assert each.name in waiting, "a result without its call"
            assert each.text
            waiting.remove(each.name)
        elif each.kind in ("user", "system"):
            assert not waiting, "something between a call and its result"
            assert each.text.strip()
        elif each.kind == "assistant":
            assert not waiting
    assert not waiting, "a call without its result"
    if wire == "messages":
        _check_messages(body)


def _check_messages(body: dict[str, Any]) -> None:
    roles = [message["role"] for message in body["messages"]]
    assert roles[:1] in ([], ["user"]) and all(a != b for a, b in itertools.pairwise(roles))
    assert json.dumps(body).count('"cache_control"') <= 4
    for message in body["messages"]:
        assert message["content"]
        kinds = [block["type"] for block in message["content"]]
        results = [kind == "tool_result" for kind in kinds]
        assert results == sorted(results, reverse=True), "results come first"
        for block in message["content"]:
            assert block["type"] != "text" or block["text"].strip()
            assert block["type"] not in ("tool_use",) or re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
    for before, after in zip(body["messages"], body["messages"][1:], strict=False):
        asked = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"]
        assert asked == answered


def _messages(body: dict[str, Any]) -> list[Heard]:
    told = [Heard("system", block["text"]) for block in body.get("system", [])]
    for message in body["messages"]:
        for block in message["content"]:
            if block["type"] == "text":
                told.append(Heard(message["role"], block["text"]))
            elif block["type"] == "tool_use":
                told.append(Heard("call", json.dumps(block["input"]), block["id"], block["name"]))
            elif block["type"] == "tool_result":
                failed = block.get("is_error", False)
                told.append(Heard("result", block["content"], block["tool_use_id"], failed=failed))
            else:
                told.append(Heard("opaque", json.dumps(block)))
    return told


def _responses(body: dict[str, Any]) -> list[Heard]:
    told = [Heard("system", body["instructions"])] if "instructions" in body else []
    for item in body["input"]:
        if item["type"] == "message":
            told.append(Heard(item["role"], item["content"]))
        elif item["type"] == "function_call":
            told.append(Heard("call", item["arguments"], item["call_id"], item["name"]))
        elif item["type"] == "function_call_output":
            told.append(Heard("result", item["output"], item["call_id"]))
        else:
            told.append(Heard("opaque", json.dumps(item)))
    return told


def _chat(body: dict[str, Any]) -> list[Heard]:
    told = []
    for message in body["messages"]:
        if message["role"] == "tool":
            told.append(Heard("result", message["content"], message["tool_call_id"]))
            continue
        if message.get("reasoning_content"):
            told.append(Heard("opaque", message["reasoning_content"]))
        if message["content"]:
            told.append(Heard(message["role"], message["content"]))
        for call in message.get("tool_calls", []):
            told.append(Heard("call", call["function"]["arguments"], call["id"], call["function"]["name"]))
    return told
