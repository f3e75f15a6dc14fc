"""What a batch's process and the processes of its tasks say to each other: JSON lines on a pipe each way."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue, TypeAdapter

from agents.batch import Record
from agents.limits import StopReason

LINE_LIMIT = 1 << 24
"""Characters of one line."""


class Turn(Record):
    """Work for some iterations. closing: the batch is over for this reason; only measure the winner afresh."""

    say: Literal["turn"] = "turn"
    iterations: int
    left: float | None
    """Seconds that are left of the batch's time; None without a bound."""
    device_seconds: float
    """Of the task so far."""
    closing: StopReason | None = None


class Answer(Record):
    """To an `Ask`. refused: the limit that is reached; None lets the call go."""

    say: Literal["answer"] = "answer"
    number: int
    refused: StopReason | None


class Halt(Record):
    """End the turn: when the step is finished, or at once."""

    say: Literal["halt"] = "halt"
    at_once: bool


Order: TypeAlias = Annotated[Turn | Answer | Halt, Field(discriminator="say")]
"""To a task's process; the end of its input tells it to leave."""


class Ask(Record):
    """May a call that costs at most so much be made? Answered by `Answer`, perhaps much later."""

    say: Literal["ask"] = "ask"
    number: int
    dollars: float
    tokens: int
    device_seconds: float
    """Of the task so far, in this line and in all others."""


class Settle(Record):
    """A call is over, and cost so much; more than nothing where it failed, too."""

    say: Literal["settle"] = "settle"
    number: int
    dollars: float
    tokens: int
    device_seconds: float


class Happened(Record):
    """An event of the run (agents/events.py)."""

    say: Literal["happened"] = "happened"
    event: str
    fields: dict[str, JsonValue]
    device_seconds: float


class Done(Record):
    """The turn is over and the run folder whole."""

    say: Literal["done"] = "done"
    reason: StopReason
    iterations: int
    share_of_limit: float | None
    device_seconds: float


class Broke(Record):
    """The turn broke off. kind: `task` and `kernel` for what can't be tried again, `settings` for a model that can't be
    used, else `infrastructure`."""

    say: Literal["broke"] = "broke"
    kind: Literal["task", "kernel", "settings", "infrastructure"]
    message: str
    advice: str
    device_seconds: float


Report: TypeAlias = Annotated[Ask | Settle | Happened | Done | Broke, Field(discriminator="say")]
ORDER: TypeAdapter[Order] = TypeAdapter(Order)
REPORT: TypeAdapter[Report] = TypeAdapter(Report)
