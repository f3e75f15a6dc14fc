"""What may be said to the environment (`agents.environment`), read without trust, and how it says what was wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from agents.seat import Candidate
from tools.errors import WarpsmithError

VERSION = 1
MOST_BYTES = 4 << 20
"""Of one message."""

Fault: TypeAlias = Literal["protocol", "action", "episode", "busy", "full", "infrastructure"]
Fields: TypeAlias = Mapping[str, JsonValue]
Found: TypeAlias = dict[str, JsonValue]

RETRIABLE: frozenset[Fault] = frozenset({"busy", "full", "infrastructure"})
"""The same message may do later."""


class Unfit(WarpsmithError):
    """A message that can't be answered as it was meant. `fault` is the closed reason."""

    def __init__(self, fault: Fault, message: str, advice: str = "") -> None:
        super().__init__(message, advice)
        self.fault: Fault = fault

    @property
    def as_json(self) -> Found:
        return {
            "kind": self.fault,
            "message": self.message,
            "advice": self.advice,
            "retriable": self.fault in RETRIABLE,
        }


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_Kind = TypeVar("_Kind", bound=_Message)


class Reset(_Message):
    """Begins an episode. Limits may only be made smaller than the environment's."""

    steps: int | None = Field(default=None, ge=1)
    device_seconds: float | None = Field(default=None, gt=0)


class Step(_Message):
    """One action of an episode. `step` is how many came before; with it a message may be sent again safely."""

    episode: str
    action: Candidate
    step: int | None = Field(default=None, ge=0)


class Close(_Message):
    """Ends an episode early."""

    episode: str


def read_fields(text: bytes) -> dict[str, JsonValue]:
    """A JSON object out of a message. Raises Unfit for anything else, and for text that no file could hold."""
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Unfit("protocol", "the message is not valid JSON in UTF-8", "Send one JSON object.") from error
    if not isinstance(value, dict):
        raise Unfit("protocol", "the message is no JSON object", "Send one JSON object.")
    return value


def read(kind: type[_Kind], fields: Fields) -> _Kind:
    """A message of that kind. Raises Unfit."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        fault: Fault = "action" if first["loc"][:1] == ("action",) else "protocol"
        raise Unfit(fault, f"{where or 'the message'}: {first['msg']}"[:300], "See docs/trajectories.md.") from error
