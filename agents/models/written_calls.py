"""Tool calls that a model wrote into its text, read leniently: servers without a parser for them let them through.

Reading never raises and never takes longer than the text is long, whatever the text.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

from pydantic import JsonValue

_TRIES = 40
"""Opening braces at which an object is looked for."""
_ARGUMENTS = ("arguments", "parameters", "args", "input")


class Written(NamedTuple):
    """A call before it has an id. `arguments` is text, JSON or not."""

    name: str
    arguments: str


def loads(text: str) -> JsonValue | None:
    """The JSON value that `text` is, bare line ends and tabs within strings allowed; None when it is none."""
    try:
        value: JsonValue = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value


def dumps(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def object_in(text: str) -> dict[str, JsonValue] | None:
    """The first JSON object in `text` that is more than a part of a sentence; None when there is none."""
    decoder, at = json.JSONDecoder(strict=False), text.find("{")
    for _ in range(_TRIES):
        if at < 0:
            return None
        try:
            value, _end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and value:
            return value
        at = text.find("{", at + 1)
    return None


def as_call(value: object, names: Collection[str]) -> Written | None:
    """The call of one of the tools `names` that an object stands for, in any of the usual shapes."""
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name = next(
        (value[key] for key in ("name", "tool", "tool_name", "function") if isinstance(value.get(key), str)), ""
    )
    if name not in names:
        return None
    for key in _ARGUMENTS:
        if key in value:
            arguments = value[key]
            return Written(name, arguments if isinstance(arguments, str) else dumps(arguments))
    return Written(name, "{}")


def tagged(text: str, names: Collection[str]) -> tuple[str, list[Written]]:
    """Calls between `<tool_call>` and `</tool_call>`, as Hermes, Qwen and others write them, and the text without."""
    before, *parts = text.split("<tool_call>")
    calls, rest = [], [before]
    for part in parts:
        body, _, after = part.partition("</tool_call>")
        call = as_call(loads(body.strip()), names)
        if call is None:
            rest.append("<tool_call>" + part)
        else:
            calls.append(call)
            rest.append(after)
    return ("".join(rest).strip(), calls) if calls else (text, [])


def without_thoughts(text: str) -> str:
    """`text` without `<think>…</think>` at its head."""
    begun = text.lstrip()
    return begun.partition("</think>")[2].lstrip() if begun.startswith("<think>") and "</think>" in begun else text
