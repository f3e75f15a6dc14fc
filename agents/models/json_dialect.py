"""Tools by JSON: each reply is one object that the server holds to a schema, `{"say": text, "call": call or null}`.

For models without native tools behind a server that can constrain its output. A server that ignores the schema is met
by lenient reading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import JsonValue

from agents.models.base import Dialect, Message, OnText, ToolSpec
from agents.models.conversation import Turn
from agents.models.shapes import clean
from agents.models.written_calls import Written, as_call, dumps, object_in, tagged, without_thoughts
from prompts.render import render

_SAY = re.compile(r'^\s*(?:```(?:json)?\s*)?\{\s*"say"\s*:\s*"')
_CUT_CALL = re.compile(r'"call"\s*:\s*\{\s*"name"\s*:\s*"([^"]*)"\s*,\s*"arguments"\s*:\s*')
_WHOLE = re.compile(
    r'(?:[^"\\]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u])*'
)
"""As much of a string as can be decoded: no half of an escape, nor of a pair of them."""


class Json:
    """The dialect."""

    name: Dialect = "json"

    def manual(self, tools: Sequence[ToolSpec]) -> str:
        shown = [{"name": t.name, "description": t.description, "schema": dumps(t.parameters)} for t in tools]
        return render("tools_json.md", tools=shown)

    def schema(self, tools: Sequence[ToolSpec]) -> dict[str, JsonValue] | None:
        """Of a reply. The tools' own definitions are moved to its root, where their references look for them."""
        calls: list[JsonValue] = [{"type": "null"}]
        definitions: dict[str, JsonValue] = {}
        for tool in tools:
            arguments = _renamed(tool.parameters, tool.name)
            assert isinstance(arguments, dict)
            found = arguments.pop("$defs", {})
            if isinstance(found, dict):
                definitions |= {f"{tool.name}_{name}": schema for name, schema in found.items()}
            properties: JsonValue = {"name": {"type": "string", "enum": [tool.name]}, "arguments": arguments}
            calls.append(_object(properties, "name", "arguments"))
        root = _object({"say": {"type": "string"}, "call": {"anyOf": calls}}, "say", "call")
        return {**root, "$defs": definitions} if definitions else root

    def tell(self, turn: Turn) -> list[Message]:
        """A past reply; calls that were made at once are told one after the other."""
        if not turn.called:
            return [Message(speaker="assistant", text=_reply(turn.text, None))]
        told = []
        for i, call in enumerate(turn.called):
            made: JsonValue = {"name": call.name, "arguments": call.parsed}
            told.append(Message(speaker="assistant", text=_reply("" if i else turn.text, made)))
            told.append(Message(speaker="user", text=f"Result of `{call.name}`:\n{call.result}"))
        return told

    def read(self, text: str, tools: Sequence[ToolSpec], cut: bool) -> tuple[str, list[Written]]:
        """What a reply says and calls. cut: it ended at the limit of its length."""
        text, names = without_thoughts(text), [tool.name for tool in tools]
        value = object_in(text)
        if value is not None and ("say" in value or "call" in value):
            said, call = value.get("say"), value.get("call")
            return (said if isinstance(said, str) else ""), [c for c in [_call(call)] if c is not None]
        loose = as_call(value, names)
        if loose is not None:
            return "", [loose]
        begun = _SAY.match(text)
        if cut and begun is not None:
            broken = _CUT_CALL.search(text)
            calls = [Written(broken[1], text[broken.end() :])] if broken is not None else []
            return _decoded(text, begun.end()), calls
        return tagged(text, names)

    def listen(self, on_text: OnText) -> _Say:
        return _Say(on_text)


class _Say:
    """Hands on the text of `say` while the object still comes."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._got = ""
        self._at: int | None = None
        self._ended = False
        self._told = ""

    def add(self, piece: str) -> None:
        if self._ended:
            return
        self._got += piece
        if self._at is None:
            begun = _SAY.match(self._got)
            self._ended = begun is None and len(self._got) > 200
            if begun is None:
                return
            self._at = begun.end()
        whole = _WHOLE.match(self._got, self._at)
        end = whole.end() if whole is not None else self._at
        self._ended = self._got[end : end + 1] == '"'
        self._say(_string(self._got[self._at : end]))
        self._at = end

    def end(self, said: str) -> None:
        """said: the reply's text; what of it was not told yet is."""
        if said.startswith(self._told):
            self._say(said[len(self._told) :])

    def _say(self, text: str) -> None:
        if text:
            self._told += clean(text)
            self._on_text(clean(text))


def _call(value: JsonValue | None) -> Written | None:
    """The call in a reply's `call`, whatever tool it names."""
    name = value.get("name") if isinstance(value, dict) else None
    return as_call(value, [name]) if isinstance(name, str) and name else None


def _reply(say: str, call: JsonValue) -> str:
    return dumps({"say": say, "call": call})


def _string(inner: str) -> str:
    try:
        value = json.loads(f'"{inner}"', strict=False)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


def _decoded(text: str, at: int) -> str:
    whole = _WHOLE.match(text, at)
    return _string(text[at : whole.end()]) if whole is not None else ""


def _object(properties: JsonValue, *required: str) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _renamed(schema: JsonValue, tool: str) -> JsonValue:
    """A copy of `schema` whose references name the definitions as the root has them."""
    if isinstance(schema, list):
        return [_renamed(item, tool) for item in schema]
    if not isinstance(schema, dict):
        return schema
    copy: dict[str, JsonValue] = {}
    for key, value in schema.items():
        is_reference = key == "$ref" and isinstance(value, str)
        copy[key] = str(value).replace("#/$defs/", f"#/$defs/{tool}_", 1) if is_reference else _renamed(value, tool)
    return copy
