"""What happens during a run, as it happens: the lines of `events.jsonl` and what `on_event` is called with.

A line is one JSON object: `event` (the kind), `time` (ISO 8601, UTC) and that kind's fields. Seconds are floats.

    kind             fields
    run_started      run, task, target, models {role: spec, fallback}, budgets {name: value | null}, parallel
    task_opened      seconds, sandbox, notes [str], workloads [{workload, weight, baseline_seconds, limit_seconds}]
    iteration_started iteration, iterations
    hypothesis       iteration, idea, change, metric, expected, parent, lessons [int], kind
    attempt_judged   attempt, parent, iteration, kernel, change, outcome, note, seconds?, share_of_limit?, speedup?,
                     stage?, reason?, device_seconds           (outcome: kept | same | slower | rejected | unjudged)
    best_changed     attempt, iteration, seconds, share_of_limit, speedup, gain (start's time / its time, or null)
    profiled         attempt, bottleneck, evidence [str], seconds
    diagnosed        attempt, bottleneck, summary, hypothesis_held (bool | null)
    model_called     role, model, iteration, call, attempt, stop, reply, seconds, and the cost: input_tokens,
                     output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, estimated, dollars
                     (call: equal for all attempts at one reply, also when a resumed run makes it again;
                     reply: blob id; dollars: null while the price is unknown)
    model_retried    role, model, iteration, call, attempt, fault, message, wait, seconds, and where the provider told
                     it the cost: input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens,
                     estimated, dollars                       (an attempt that failed, and is made again after `wait`)
    model_failed     role, model, iteration, call, attempt, fault, message, seconds, and where the provider told it the
                     cost: input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, estimated,
                     dollars                                  (an attempt that failed, and is not made again)
    model_changed    role, iteration, call, before, after, why, message
                     (why: transient | overflow | refusal | auth | quota | bad_request | format | user)
    model_corrected  role, model, iteration, call, case       (a reply that could not be used, and was answered so;
                     case: truncated | empty | prose | refused | arguments)
    tool_called      role, tool, ok, error (str | null), seconds
    lesson           lesson (number), claim, says, confirmed, contradicted  (learnt, or measured again)
    lessons_failed   message                                                (the store; the run goes on without)
    iteration_ended  iteration, iterations, attempts, best, seconds | null, share_of_limit | null, elapsed,
                     time_left | null, stale, harness_seconds  (time_left: to the earliest budget's end, estimated;
                     stale: attempts since the last gain; harness_seconds: the iteration outside model calls and tools)
    stopping         reason
    run_ended        reason, iterations, attempts, kept, best, seconds | null, share_of_limit | null, speedup | null,
                     elapsed
    run_failed       error, message, advice                                           (an error, which is then raised)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

import structlog
from pydantic import BaseModel, ConfigDict, JsonValue

from agents.secrets import Scrubber
from memory.files import write_failure

EventKind: TypeAlias = Literal[
    "run_started",
    "task_opened",
    "iteration_started",
    "hypothesis",
    "attempt_judged",
    "best_changed",
    "profiled",
    "diagnosed",
    "model_called",
    "model_retried",
    "model_failed",
    "model_changed",
    "model_corrected",
    "tool_called",
    "lesson",
    "lessons_failed",
    "iteration_ended",
    "stopping",
    "run_ended",
    "run_failed",
]


class Event(BaseModel):
    """One thing that happened; `fields` as the module's table says for its kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: EventKind
    fields: dict[str, JsonValue]


OnEvent: TypeAlias = Callable[[Event], None]


class Journal:
    """Writes each event to `path` and tells `on_event`, both without keys. Raises `RunFolderError` when the disk is
    full."""

    def __init__(self, path: Path, on_event: OnEvent, scrubber: Scrubber | None = None) -> None:
        self.path = path
        self._on_event = on_event
        self._scrubber = scrubber or Scrubber()
        try:
            torn = path.exists() and not path.read_bytes().endswith(b"\n")
            self._file = path.open("a", encoding="utf-8")
            if torn:
                self._file.write("\n")
        except OSError as error:
            raise write_failure(path, error) from error
        self._log = structlog.wrap_logger(
            structlog.WriteLogger(self._file),
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
                structlog.processors.JSONRenderer(sort_keys=False),
            ],
        )

    def tell(self, event: EventKind, **fields: JsonValue) -> None:
        fields = {name: self._scrubber.json(value) for name, value in fields.items()}
        try:
            self._log.msg(event, **fields)
        except OSError as error:
            raise write_failure(self.path, error) from error
        self._on_event(Event(event=event, fields=fields))

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
