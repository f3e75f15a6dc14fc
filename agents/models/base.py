"""The seam to every model: a neutral request in, one reply out. Roles know nothing else of a model."""

from __future__ import annotations

from collections.abc import Callable
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


class Opaque(_Neutral):
    """What a provider wants back unchanged with an assistant's message: reasoning items, thinking blocks, signatures.

    `owner` is the adapter that wrote it, as `anthropic` or `openai`; every other adapter leaves it out.
    """

    owner: str
    items: tuple[JsonValue, ...]


Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Message(_Neutral):
    """One message. Only the assistant's have `tool_calls` and `opaque`; only a tool's has `call`, the id of the call it
    answers, and `failed`, that the call came to nothing.

    `label` names the part of the prompt that the message is ("ledger", "best kernel"), for the transcript; providers do
    not see it.
    """

    speaker: Speaker
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    call: str | None = None
    failed: bool = False
    label: str = ""
    opaque: Opaque | None = None


class Usage(_Neutral):
    """What a reply cost, in tokens as the provider reported them and in US dollars.

    `input_tokens` is the whole prompt; `cached_tokens` (read from the cache) and `cache_write_tokens` are parts
    of it; `reasoning_tokens` are a part of `output_tokens`. `dollars` is None while nobody knows the price.
    `estimated`: the server reported no tokens, so that these are a guess from the texts' lengths.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    dollars: float | None = None
    estimated: bool = False


Dialect: TypeAlias = Literal["native", "json", "text"]
"""How a model speaks of tools. native: by its provider's own fields; json: a JSON object that the provider holds to a
schema; text: a fenced block in plain text (agents/models/dialect.py)."""


class Request(_Neutral):
    """What a model is asked: the conversation so far and the tools it may call.

    `reply_tokens` bounds the reply, reasoning included. `cache_key` is equal for requests that share a prefix, for
    providers that route by it. `dialect` is None where the model's own is wanted. `reply_schema`: a JSON schema that
    the reply's text must fit, for models that can be held to one.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    reply_tokens: int = 16_000
    cache_key: str = ""
    dialect: Dialect | None = None
    reply_schema: dict[str, JsonValue] | None = None


class Reply(_Neutral):
    """A model's answer. `stop` says why it ended: it was done, wants tools, ran out of room, or refused.

    `model` is the one that answered, as `provider:model`; empty when it is the one that was asked. `dialect`: how the
    tools were spoken of. At the stop `length` a tool call may be cut off in its arguments and must not be made.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: Literal["done", "tools", "length", "refused"] = "done"
    opaque: Opaque | None = None
    model: str = ""
    dialect: Dialect = "native"

    @property
    def message(self) -> Message:
        return Message(speaker="assistant", text=self.text, tool_calls=self.tool_calls, opaque=self.opaque)


ModelFault: TypeAlias = Literal["transient", "overflow", "refusal", "auth", "quota", "bad_request"]
"""Why a model gave no reply. transient: the same request may work later (rate limit, outage, a stream that broke off);
overflow: the prompt is longer than the window; refusal: it declines to answer; auth: the key is missing or wrong;
quota: the account's money or allowance is used up; bad_request: the provider does not accept what was sent."""


class ModelError(WarpsmithError):
    """One request came to nothing. `retry_after`: seconds that the provider asked to wait; `usage`: what it cost all
    the same, where the provider said so; `unreachable`: nobody answered at its address."""

    def __init__(
        self,
        fault: ModelFault,
        message: str,
        advice: str = "",
        *,
        retry_after: float | None = None,
        usage: Usage | None = None,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message, advice)
        self.fault: ModelFault = fault
        self.retry_after = retry_after
        self.usage = usage
        self.unreachable = unreachable


class ModelUnavailable(WarpsmithError):
    """No model of a role can be reached, after all retries and fallbacks; the run can go on later or with another."""


OnText: TypeAlias = Callable[[str], None]
"""Called with each piece of a reply's text as it comes."""


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

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """How it may be spoken to of tools, each to be tried after the one before it."""
        ...

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The next message. Raises ModelError, or ModelUnavailable once nothing is left to try."""
        ...

    async def aclose(self) -> None:
        """Give back its connections; it may be spoken to again. What wraps a model closes it."""
        ...
