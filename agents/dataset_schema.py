"""The columns of each kind of dataset, in one table that the writer, the card and the tests read.

Every line has every column, absent values as null, and a column has one type: that is what JSON readers that infer
types from the first lines need.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from pydantic import JsonValue

Kind: TypeAlias = Literal["sft", "preference", "rl", "trajectory"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Column: TypeAlias = "str | list[Column] | dict[str, Column]"
"""A dtype's name, a list of one kind of items, or named fields. Everything may be null."""

_CALL: dict[str, Column] = {"id": "string", "type": "string", "function": {"name": "string", "arguments": "string"}}
CHAT: dict[str, Column] = {
    "role": "string",
    "content": "string",
    "tool_calls": [_CALL],
    "tool_call_id": "string",
}
"""A message in OpenAI's chat format; `arguments` is the text that the model wrote."""
_ORIGIN: dict[str, Column] = {"run": "string", "task": "string", "target": "string", "chip": "string"}
_TURN: dict[str, Column] = {"turn": "string", "role": "string", "iteration": "int64", "model": "string"}
_WORTH: dict[str, Column] = {"reward_steps": "int64", "reward_continuous": "float64", "speedup": "float64"}
_ATTEMPT: dict[str, Column] = {"id": "string", "parent": "string", "outcome": "string", "share_of_limit": "float64"}

COLUMNS: dict[Kind, dict[str, Column]] = {
    "sft": {"messages": [CHAT], "tools": "string", **_ORIGIN, **_TURN, **_WORTH},
    "preference": {
        "prompt": [CHAT],
        "chosen": [CHAT],
        "rejected": [CHAT],
        **_ORIGIN,
        "parent": "string",
        "chosen_attempt": "string",
        "rejected_attempt": "string",
        "because": "string",
        "ratio": "float64",
        "chosen_reward_steps": "int64",
        "chosen_reward_continuous": "float64",
        "rejected_reward_steps": "int64",
        "rejected_reward_continuous": "float64",
    },
    "rl": {
        "episode": "string",
        "step": "int64",
        "observation": [CHAT],
        "begins_anew": "bool",
        "action": CHAT,
        "reward": "float64",
        "done": "bool",
        "tools": "string",
        **_ORIGIN,
        **_TURN,
        **_WORTH,
    },
    "trajectory": {
        **_ORIGIN,
        **_TURN,
        "call": "int64",
        "prompt": [{"label": "string", **CHAT}],
        "prompt_is_exact": "bool",
        "reply": CHAT,
        "stop": "string",
        "results": [{"call": "string", "tool": "string", "content": "string"}],
        "attempts": [{**_ATTEMPT, **_WORTH}],
        **_WORTH,
        "usage": {
            "input_tokens": "int64",
            "output_tokens": "int64",
            "cached_tokens": "int64",
            "reasoning_tokens": "int64",
            "dollars": "float64",
        },
    },
}

_JSON_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "int64": (int,), "float64": (float,), "bool": (bool,)}


def misfit(value: JsonValue, column: Column, where: str = "") -> str | None:
    """Where `value` is not of its column's type; None when all of it is."""
    if value is None:
        return None
    if isinstance(column, str):
        fits = isinstance(value, _JSON_TYPES[column]) and (column != "int64" or not isinstance(value, bool))
        return None if fits else f"{where}: {type(value).__name__} is no {column}"
    if isinstance(column, list):
        if not isinstance(value, list):
            return f"{where}: {type(value).__name__} is no list"
        found = (misfit(item, column[0], f"{where}[{i}]") for i, item in enumerate(value))
        return next((wrong for wrong in found if wrong is not None), None)
    if not isinstance(value, dict) or list(value) != list(column):
        return f"{where}: its fields are not {', '.join(column)}"
    found = (misfit(value[name], part, f"{where}.{name}") for name, part in column.items())
    return next((wrong for wrong in found if wrong is not None), None)


def features(columns: dict[str, Column], indent: str) -> str:
    """The columns as a dataset card's `features`, in YAML."""
    return "\n".join(_feature(name, column, indent) for name, column in columns.items())


def _feature(name: str, column: Column, indent: str) -> str:
    head = f"{indent}- name: {name}\n"
    if isinstance(column, str):
        return f"{head}{indent}  dtype: {column}"
    if isinstance(column, dict):
        return f"{head}{indent}  struct:\n{features(column, indent + '  ')}"
    item = column[0]
    if isinstance(item, dict):
        return f"{head}{indent}  list:\n{features(item, indent + '  ')}"
    return f"{head}{indent}  list: {item}"
