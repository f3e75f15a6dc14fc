"""The schema of `events.jsonl`: a line is the record of its kind (`agents.run_events`, `agents.call_events`).

A change that an older reader would misunderstand (a field that goes, or means something else) is another version; a new
kind or a new field that may be absent is not. Lines of version 1 have no `v`; `upgraded` makes today's of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias, get_args

from pydantic import Field, JsonValue, TypeAdapter

from agents.call_events import (
    JudgeRetried,
    LessonsFailed,
    LessonTold,
    ModelCalled,
    ModelChanged,
    ModelCorrected,
    ModelFailed,
    ModelRetried,
    ToolCalled,
    TurnStarted,
)
from agents.event_line import VERSION, Line
from agents.run_events import (
    AttemptJudged,
    BestChanged,
    BudgetLow,
    Diagnosed,
    HypothesisTold,
    IterationEnded,
    IterationStarted,
    Profiled,
    RunEnded,
    RunFailed,
    RunPaused,
    RunResumed,
    RunStarted,
    SamplesRaced,
    StoppingTold,
    TaskOpened,
)
from agents.steer_events import Answered, ExportTold, PlanWaits, Steered, SteerRefused

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
    | TurnStarted
    | ModelCalled
    | ModelRetried
    | ModelFailed
    | ModelChanged
    | ModelCorrected
    | ToolCalled
    | JudgeRetried
    | LessonTold
    | LessonsFailed
    | IterationEnded
    | BudgetLow
    | SamplesRaced
    | StoppingTold
    | RunEnded
    | RunPaused
    | RunFailed
    | Steered
    | SteerRefused
    | Answered
    | PlanWaits
    | ExportTold,
    Field(discriminator="event"),
]
"""Any line."""

RECORD: Final[TypeAdapter[Any]] = TypeAdapter(Record)
RECORDS: Final[dict[str, type[Line]]] = {
    str(get_args(record.model_fields["event"].annotation)[0]): record for record in get_args(get_args(Record)[0])
}
"""By kind."""

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
