"""Tools as a model sees them, and the one error policy.

A tool is an async function: what the engineer hands in is positional, what the model writes is keyword-only, and the
docstring is the manual. Expected failures come back as text out of a closed list; everything else raises, since neither
a broken judge nor a bug of ours is the model's to mend.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, create_model

from agents.figures import rounded
from agents.models.base import ToolCall, ToolSpec
from tools.errors import KernelError, WarpsmithError
from tools.records import Kernel

Fault: TypeAlias = Literal["unknown_tool", "invalid_json", "wrong_arguments", "refused"]


class Refused(WarpsmithError):
    """A tool can't do what was asked, and the model can ask for something else."""


EXPECTED: tuple[type[WarpsmithError], ...] = (Refused, KernelError)
"""The failures that a model gets to see. The others end the run: they mean that nothing can be learnt any more."""


class Result(BaseModel):
    """What a tool found. Only `value` goes to the model."""

    model_config = ConfigDict(frozen=True)

    value: JsonValue
    device_seconds: float = 0.0
    kernel: Kernel | None = None
    """The last candidate that the tool handled."""
    handed_in: bool = False
    """Whether that candidate is what the role wants to be judged, whatever it looks at afterwards."""


class Answer(BaseModel):
    """A tool call's answer: the text for the model, or the fault it made."""

    model_config = ConfigDict(frozen=True)

    text: str
    fault: Fault | None = None
    device_seconds: float = 0.0
    kernel: Kernel | None = None
    handed_in: bool = False
    ends_turn: bool = False


Function: TypeAlias = Callable[..., Awaitable[Result]]


@dataclass(frozen=True)
class Tool:
    """A typed function that a model may call. After a good call to one that `ends_turn` the model is not asked
    again."""

    function: Function
    ends_turn: bool = False

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """The keyword-only parameters as a model that refuses any other."""
        hints = get_type_hints(self.function, include_extras=True)
        parameters = inspect.signature(self.function).parameters.values()
        fields: dict[str, Any] = {
            p.name: (hints[p.name], Field() if p.default is p.empty else p.default)
            for p in parameters
            if p.kind is p.KEYWORD_ONLY
        }
        return create_model(f"{self.name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)

    @cached_property
    def spec(self) -> ToolSpec:
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return ToolSpec(name=self.name, description=inspect.getdoc(self.function) or "", parameters=schema)


class Toolbox:
    """The tools of one role in one turn. `seat` is what every function gets as its positional argument."""

    def __init__(self, tools: Sequence[Tool], seat: object) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._seat = seat

    @property
    def specs(self) -> list[ToolSpec]:
        return [tool.spec for tool in self._tools.values()]

    def seated(self, seat: object) -> Toolbox:
        """The same tools with another seat."""
        return Toolbox(tuple(self._tools.values()), seat)

    async def call(self, call: ToolCall) -> Answer:
        """Do what the model asked for, or say what was wrong with it."""
        tool = self._tools.get(call.name)
        if tool is None:
            return _fault("unknown_tool", f"there is no tool `{call.name}`; there are: {', '.join(self._tools)}")
        try:
            written = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError) as error:
            return _fault("invalid_json", f"the arguments of `{call.name}` are not valid JSON: {error}")
        try:
            arguments = tool.arguments.model_validate(written)
        except ValidationError as error:
            return _fault("wrong_arguments", f"`{call.name}` was not called: {_in_words(error)}")
        try:
            result = await tool.function(self._seat, **{name: getattr(arguments, name) for name in written})
        except EXPECTED as error:
            return _fault("refused", str(error))
        text = json.dumps(rounded(result.value), ensure_ascii=False)
        return Answer(
            text=text,
            device_seconds=result.device_seconds,
            kernel=result.kernel,
            handed_in=result.handed_in,
            ends_turn=tool.ends_turn,
        )


def _fault(fault: Fault, message: str) -> Answer:
    return Answer(text=f"error: {fault}: {message}", fault=fault)


def _in_words(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    words = [f"{'.'.join(str(part) for part in p['loc']) or 'arguments'}: {p['msg']}" for p in problems[:5]]
    more = len(problems) - len(words)
    return "; ".join(words) + (f"; and {more} more" if more else "")
