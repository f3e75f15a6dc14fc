"""Events of calls to models and tools, and of what was learnt. All seconds are floats, money is US dollars."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from agents.event_line import Line
from agents.models.base import ModelFault
from agents.models.failover import Why
from agents.repairs import Case
from agents.settings import Role
from agents.toolbox import Fault
from memory.lessons import Says


class _Call(Line):
    """One call to a model: however often it is tried, and made again by a resumed run, `call` is the same."""

    role: Role
    iteration: int
    call: str
    """Equal for all tries of one call, also when a resumed run makes it again."""


class _Tried(_Call):
    model: str
    tries: int
    """How many the call took in this process, this one included."""
    seconds: float
    """Of this try."""


class _Cost(BaseModel):
    """Tokens as the provider counted them."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    input_tokens: int
    """The whole prompt."""
    output_tokens: int
    """The whole reply."""
    cached_tokens: int
    """Of the input, read from the provider's cache."""
    cache_write_tokens: int
    """Of the input, written to it."""
    reasoning_tokens: int
    """Of the output."""
    estimated: bool
    """The server counted nothing, so that the tokens are guessed from the texts' lengths."""
    dollars: float | None
    """null while the price is unknown."""


class _CostIfTold(BaseModel):
    """The cost of a call that failed; absent where the provider did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    estimated: bool | None = None
    dollars: float | None = None


class TurnStarted(Line):
    """A role's model is asked, for the first time in that turn by this process. Not told of what is built in, which
    nobody waits for."""

    event: Literal["turn_started"]
    role: Role
    iteration: int
    turn: str
    model: str


class ModelCalled(_Tried, _Cost):
    """A reply came and was paid."""

    event: Literal["model_called"]
    stop: Literal["done", "tools", "length", "refused"]
    """Why the reply ended."""
    reply: str
    """Its blob: a file under `blobs/`."""


class ModelRetried(_Tried, _CostIfTold):
    """A try failed and is made again after `wait`."""

    event: Literal["model_retried"]
    fault: ModelFault
    message: str
    wait: float
    """Seconds."""


class ModelFailed(_Tried, _CostIfTold):
    """A try failed and is not made again."""

    event: Literal["model_failed"]
    fault: ModelFault | Literal["user", "time"]
    """`user`: a person chose another model before anything was heard of this one. `time`: the time budget was spent
    long ago."""
    message: str


class ModelChanged(_Call):
    """Another model speaks."""

    event: Literal["model_changed"]
    before: str
    after: str
    why: Why
    message: str
    """What the provider or a person said."""


class ModelCorrected(_Call):
    """A reply could not be used, and the model was told so."""

    event: Literal["model_corrected"]
    case: Case


class ToolCalled(Line):
    """A role's tool was run."""

    event: Literal["tool_called"]
    role: Role
    tool: str
    ok: bool
    error: Fault | None
    """null when `ok`."""
    message: str | None = None
    """The beginning of what the model was told of the error. Absent when `ok`."""
    seconds: float
    call: str | None = None
    """Equal when a resumed run comes to the same call."""
    answer: str | None = None
    """Its blob."""
    device_seconds: float | None = None
    """Of `seconds`, those on the device."""


class JudgeRetried(Line):
    """A job that the judge could not do for reasons of the machine is done again after `wait`."""

    event: Literal["judge_retried"]
    op: Literal["build", "evaluate", "quick", "profile", "experiment"]
    tries: int
    """How many there were."""
    message: str
    wait: float
    """Seconds."""


class LessonTold(Line):
    """A lesson was learnt, or measured again."""

    event: Literal["lesson"]
    lesson: int
    claim: str
    says: Says
    confirmed: int
    contradicted: int


class LessonsFailed(Line):
    """The store of lessons could not be read or written; the run goes on without."""

    event: Literal["lessons_failed"]
    message: str
