"""What a server sent, read without trust: the SDKs hand over any JSON as if it had the right shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from pydantic import JsonValue

Fields: TypeAlias = Mapping[str, object]
MOST_TOKENS = 10**12
"""No model reads or writes so many; a count beyond it is nonsense that no sum of money could hold."""


def fields(value: object) -> Fields:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Fields]:
    """The objects in `value` if it is a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """A number of tokens; 0 for what is none."""
    number = index(value)
    return number if number is not None and 0 < number < MOST_TOKENS else 0


def index(value: object) -> int | None:
    """A whole number, which some servers write as `3.0`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def clean(value: str) -> str:
    """`value` with halves of surrogate pairs joined, or replaced where the other half is missing: nothing that can't be
    encoded as UTF-8 is let in or out. A model's JSON may hold such halves as escapes."""
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def sound(value: JsonValue) -> JsonValue:
    """`value` with `clean` done to all its strings, names included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [sound(item) for item in value]
    if isinstance(value, dict):
        return {clean(name): sound(item) for name, item in value.items()}
    return value


def sound_json(written: str) -> str:
    """`written`, but JSON whose escapes are halves of pairs without them: decoded, these could not be stored."""
    if "\\ud" not in written.lower():
        return written
    try:
        decoded = json.dumps(json.loads(written), ensure_ascii=False)
    except (ValueError, RecursionError):
        return written
    sound = clean(decoded)
    return written if sound == decoded else sound
