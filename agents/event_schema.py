"""The schema of `events.jsonl`: one record for each kind of event, and what every line has beside it.

    VERSION   what lines of today are; `v` in each of them. 1: lines without `v`, which `upgraded` makes into today's

A change that an older reader would misunderstand (a field that goes, or means something else) is another version; a new
kind or a new field that may be absent is not. All seconds are floats, all times ISO 8601 in UTC, money is US dollars.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from agents.limits import StopReason
from agents.models.base import ModelFault
from agents.models.failover import Why
from agents.repairs import Case
from agents.settings import Models, Role
from agents.state import Kind
from agents.toolbox import Fault
from memory.ledger import Outcome
from memory.lessons import Says
from tools.records import Reason, TargetName

VERSION: Final = 2

Share: TypeAlias = float
"""Limit / time: 1.0 is the shortest time that the machine allows."""


class Line(BaseModel):
    """What any line may have: who spoke, and where in the run. What does not apply is absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    v: Literal[2]
    """Version of this schema."""
    time: AwareDatetime
    """When it was written."""
    run: str | None = None
    """The run folder's name."""
    task: str | None = None
    """The task's name."""
    iteration: int | None = None
    """0 is the starting kernel."""
    turn: str | None = None
    """The turn in which it happened, as the transcript's file is called: `0003-coder-1`."""
    role: Role | None = None
    """Whose turn it is."""
    model: str | None = None
    """Who is asked, as `provider:model`."""
    attempt: str | None = None
    """The attempt that it is about, or that is being judged: `a7`."""


class RunStarted(Line):
    """The run began."""

    event: Literal["run_started"]
    run: str
    task: str
    target: TargetName
    models: Models
    """Which model plays each role, and which take over."""
    budgets: dict[str, float | int | bool | str | None]
    """By name; null is no bound. Times are seconds, money is US dollars, `near_limit` is a fraction of 1."""
    parallel: int
    """Hypotheses an iteration."""


class RunResumed(Line):
    """Another process goes on with the run."""

    event: Literal["run_resumed"]
    run: str
    task: str
    target: TargetName
    models: Models
    """Which model plays each role, and which take over."""
    budgets: dict[str, float | int | bool | str | None]
    """By name; null is no bound. Times are seconds, money is US dollars, `near_limit` is a fraction of 1."""
    parallel: int
    """Hypotheses an iteration."""
    attempts: int
    """That were judged before."""
    changes: dict[str, JsonValue]
    """What was asked for otherwise than before: setting to `{"before": …, "after": …}`."""


class WorkloadTold(BaseModel):
    """One workload of the task."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    workload: str
    weight: float
    baseline_seconds: float
    limit_seconds: float
    """The shortest time that the machine allows."""


class TaskOpened(Line):
    """The judge stands: inputs made, machine and baseline measured."""

    event: Literal["task_opened"]
    seconds: float
    """What opening took."""
    sandbox: str
    notes: list[str]
    workloads: list[WorkloadTold]
    """Each has `workload`, `weight`, `baseline_seconds`, and `limit_seconds`, the shortest time that is possible."""


class IterationStarted(Line):
    """The planner is asked. Told again when a resumed run does the step again."""

    event: Literal["iteration_started"]
    iteration: int
    iterations: int
    """The limit."""


class HypothesisTold(Line):
    """The planner proposed a change."""

    event: Literal["hypothesis"]
    iteration: int
    idea: str
    """Why it should help."""
    change: str
    """The one change to make."""
    metric: str
    """The figure that it should move."""
    expected: str
    """By how much."""
    parent: str | None
    """The attempt to start from."""
    lessons: list[int]
    """Numbers of the lessons that it puts to the test."""
    kind: Kind
    """What sort of idea it is."""


class AttemptJudged(Line):
    """A kernel went through the gauntlet."""

    event: Literal["attempt_judged"]
    attempt: str
    parent: str | None
    iteration: int
    kernel: str
    """Hash of its content."""
    change: str
    """Build settings and edits in words."""
    outcome: Outcome
    note: str
    device_seconds: float
    """What judging it took."""
    seconds: float | None = None
    """Of the kernel; with the two below only when it was accepted."""
    share_of_limit: Share | None = None
    """Limit / its time."""
    speedup: float | None = None
    """Baseline's time / its time."""
    stage: str | None = None
    """Where it failed; only when it was rejected, as is `reason`."""
    reason: Reason | None = None


class BestChanged(Line):
    """An attempt is the best from now on."""

    event: Literal["best_changed"]
    attempt: str
    iteration: int
    seconds: float
    share_of_limit: Share
    """Limit / its time: 1.0 is the shortest time that the machine allows."""
    speedup: float
    """Baseline's time / its time."""
    gain: float | None
    """The starting kernel's time / its time; null while that one has none."""


class Profiled(Line):
    """An attempt was profiled."""

    event: Literal["profiled"]
    attempt: str
    bottleneck: Literal["memory", "compute", "latency", "overhead"]
    evidence: list[str]
    """Measured figures that say so."""
    seconds: float
    """What profiling took."""


class Diagnosed(Line):
    """The analyst read an attempt."""

    event: Literal["diagnosed"]
    attempt: str
    bottleneck: Literal["memory", "compute", "latency", "overhead", "unknown"]
    summary: str
    hypothesis_held: bool | None
    """null: its metric was not measured."""


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
    fault: ModelFault
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
    seconds: float
    call: str | None = None
    """Equal when a resumed run comes to the same call."""
    answer: str | None = None
    """Its blob."""
    device_seconds: float | None = None
    """Of `seconds`, those on the device."""


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


class IterationEnded(Line):
    """What stands after an iteration."""

    event: Literal["iteration_ended"]
    iteration: int
    iterations: int
    """The limit."""
    attempts: int
    """All so far."""
    best: str | None
    """The best attempt; null with the two below while none was accepted."""
    seconds: float | None
    share_of_limit: Share | None
    elapsed: float
    """Seconds at work, over all resumptions."""
    time_left: float | None
    """Seconds to the earliest budget's end, estimated."""
    stale: int
    """Attempts since the last gain."""
    harness_seconds: float
    """The iteration outside model calls and tools."""


class StoppingTold(Line):
    """The search is over; the best kernel is measured afresh."""

    event: Literal["stopping"]
    reason: StopReason
    iteration: int | None = None
    """The last one that was finished."""
    message: str | None = None


class RunEnded(Line):
    """The run ended in order. A resumed run goes on after it."""

    event: Literal["run_ended"]
    reason: StopReason
    iterations: int
    """Finished ones."""
    attempts: int
    kept: int
    best: str | None
    """null with the three below when no attempt was accepted."""
    seconds: float | None
    share_of_limit: Share | None
    """Limit / its time."""
    speedup: float | None
    """Baseline's time / its time."""
    elapsed: float
    """Seconds at work, over all resumptions."""


class RunFailed(Line):
    """The run ended with an error. A resumed run goes on after it."""

    event: Literal["run_failed"]
    error: str
    """Its class."""
    message: str
    advice: str


Record: TypeAlias = Annotated[
    RunStarted
    | RunResumed
    | TaskOpened
    | IterationStarted
    | HypothesisTold
    | AttemptJudged
    | BestChanged
    | Profiled
    | Diagnosed
    | ModelCalled
    | ModelRetried
    | ModelFailed
    | ModelChanged
    | ModelCorrected
    | ToolCalled
    | LessonTold
    | LessonsFailed
    | IterationEnded
    | StoppingTold
    | RunEnded
    | RunFailed,
    Field(discriminator="event"),
]
"""Any line."""

RECORD: Final[TypeAdapter[Any]] = TypeAdapter(Record)
RECORDS: Final[dict[str, type[Line]]] = {
    str(get_args(record.model_fields["event"].annotation)[0]): record for record in get_args(get_args(Record)[0])
}
"""By kind."""
BOUND: Final = ("run", "task", "iteration", "turn", "role", "model", "attempt")
"""What a line has beside its kind's own fields, where it applies."""

_COUNTED_IN_ATTEMPT = ("model_called", "model_retried", "model_failed")
"""Kinds of version 1 whose `attempt` counted the tries of a call."""


def check(line: str) -> None:
    """Raises pydantic's ValidationError when `line`, as JSON, is not what the schema says of its kind."""
    RECORD.validate_json(line, strict=True)


def upgraded(line: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A line of any version as one of today's; one of a later version as it is."""
    new = dict(line)
    if "v" in new:
        return new
    if new.get("event") in _COUNTED_IN_ATTEMPT and "attempt" in new:
        new["tries"] = new.pop("attempt")
    return {"event": new.pop("event", ""), "time": new.pop("time", ""), "v": VERSION, **new}
