"""The seam to every model: neutral messages in, one reply out. Roles know nothing else of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from tools.errors import WarpsmithError


class _Neutral(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolSpec(_Neutral):
    """A tool as the model is told of it. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


class ToolCall(_Neutral):
    """What a model wants done. `arguments` is the text that the model wrote, which need not be valid JSON."""

    id: str
    name: str
    arguments: str


Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Message(_Neutral):
    """One message. Only the assistant's have `tool_calls`; only a tool's has `call`, the id of the call it answers.

    `label` names the part of the prompt that the message is ("ledger", "best kernel"), for the transcript; providers do
    not see it. `opaque` is what a provider wants back unchanged with an assistant's message (reasoning items).
    """

    speaker: Speaker
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    call: str | None = None
    label: str = ""
    opaque: dict[str, JsonValue] = {}


class Usage(_Neutral):
    """What a reply cost. `dollars` is 0 for a model that costs nothing, and also when its price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0


class Reply(_Neutral):
    """A model's answer. `stop` says why it ended: it was done, wants tools, ran out of room, or refused."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: Literal["done", "tools", "length", "refused"] = "done"
    opaque: dict[str, JsonValue] = {}

    @property
    def message(self) -> Message:
        return Message(speaker="assistant", text=self.text, tool_calls=self.tool_calls, opaque=self.opaque)


class ModelUnavailable(WarpsmithError):
    """The model can't be reached, now or after its own retries; the run can go on later or with another model."""


class ChatModel(Protocol):
    """A model that can be spoken to."""

    @property
    def name(self) -> str:
        """As a person would name it: `provider:model`."""
        ...

    @property
    def window(self) -> int:
        """Tokens of prompt and reply together."""
        ...

    async def reply(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        """The next message. Raises ModelUnavailable."""
        ...
