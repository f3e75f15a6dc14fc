from __future__ import annotations

import json
from typing import Annotated

import pytest
from pydantic import Field

from agents.actions import TOOLS
from agents.models.base import ToolCall
from agents.toolbox import Refused, Result, Tool, Toolbox
from tools.errors import InfrastructureError, KernelError, TaskError


async def add(seat: list[int], *, a: Annotated[int, Field(description="First.")], b: int = 2) -> Result:
    """Adds."""
    seat.append(a + b)
    return Result(value={"sum": a + b}, device_seconds=0.5)


async def fail(seat: list[int], *, how: str) -> Result:
    """Fails."""
    raise {
        "refused": Refused("no", "Try yes."),
        "kernel": KernelError("bad flag -fplugin"),
        "task": TaskError("raised", "gone"),
        "infrastructure": InfrastructureError("the judge is gone"),
        "bug": ZeroDivisionError(),
    }[how]


def call(name: str, arguments: object) -> ToolCall:
    return ToolCall(id="c0", name=name, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments))


@pytest.fixture
def seat() -> list[int]:
    return []


@pytest.fixture
def box(seat: list[int]) -> Toolbox:
    return Toolbox([Tool(add, ends_turn=True), Tool(fail)], seat)


async def test_a_good_call_reaches_the_function_with_the_seat(box: Toolbox, seat: list[int]) -> None:
    answer = await box.call(call("add", {"a": 1}))
    assert (answer.fault, json.loads(answer.text), answer.device_seconds, answer.ends_turn) == (
        None,
        {"sum": 3},
        0.5,
        True,
    )
    assert seat == [3]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("subtract", {}, "unknown_tool: there are: add, fail"),
        ("add", "{a: 1", "invalid_json: not valid JSON"),
        ("add", "[1]", "wrong_arguments: dictionary"),
        ("add", {}, "wrong_arguments: a: Field required"),
        ("add", {"a": "one"}, "wrong_arguments: a: Input should be a valid integer"),
        ("add", {"a": 1, "c": 1}, "wrong_arguments: c: Extra inputs"),
        ("fail", {"how": "refused"}, "refused: no. Try yes."),
        ("fail", {"how": "kernel"}, "refused: bad flag -fplugin"),
    ],
)
async def test_the_model_sees_a_closed_list_of_faults(
    box: Toolbox, seat: list[int], name: str, arguments: object, words: str
) -> None:
    answer = await box.call(call(name, arguments))
    fault, _, why = words.partition(": ")
    assert answer.fault == fault and answer.text.startswith(f"error: {fault}: ") and why in answer.text
    assert not answer.ends_turn and seat == []


@pytest.mark.parametrize("how", ["task", "infrastructure", "bug"])
async def test_everything_else_raises(box: Toolbox, how: str) -> None:
    with pytest.raises((TaskError, InfrastructureError, ZeroDivisionError)):
        await box.call(call("fail", {"how": how}))


def test_the_schema_holds_what_the_model_writes_and_nothing_of_the_engineer(box: Toolbox) -> None:
    spec = box.specs[0]
    assert spec.name == "add" and spec.description == "Adds."
    assert spec.parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": {"type": "integer", "title": "A", "description": "First."},
            "b": {"type": "integer", "title": "B", "default": 2},
        },
        "required": ["a"],
    }


def test_each_role_has_the_tools_that_it_is_told_of() -> None:
    names = {role: {tool.name for tool in tools} for role, tools in TOOLS.items()}
    assert names == {
        "planner": {"propose", "show", "search"},
        "coder": {"compile", "run", "profile", "search", "tune", "experiment", "show"},
        "analyst": {"profile", "experiment", "search", "show", "learn", "diagnose"},
    }
    for tool in {tool for tools in TOOLS.values() for tool in tools}:
        assert len(tool.spec.description) > 80
        assert all(
            "description" in p or "default" in p or "$ref" in json.dumps(p)
            for p in tool.spec.parameters["properties"].values()
        )
