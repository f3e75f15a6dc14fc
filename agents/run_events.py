"""Events of a run, its iterations and its attempts. All seconds are floats."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from agents.event_line import Line
from agents.last_measurement import LastMeasurement
from agents.limits import Budget, StopReason
from agents.settings import Models
from agents.state import Kind
from memory.ledger import Outcome
from memory.movement import Evidence
from tools.records import Reason, TargetName

Share: TypeAlias = float
"""Limit / time: 1.0 is the shortest time that the machine allows."""


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
    person: str | None = None
    """What a person said of it who wrote it by hand; absent when a coder did."""
    sample: int | None = None
    """Which of the kernels drawn for its hypothesis it is, from 1; absent when only one was drawn."""
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
    """The starting kernel's time / its time, as `gain_by` says; null while that one has none."""
    gain_by: Evidence | None = None
    """`raced` against it, `chained` over races with others, or by two `medians`, as in older runs, where it is absent.
    Absent of the starting kernel itself too."""


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


class BudgetLow(Line):
    """80 % of a budget are gone. Told once for each; again when its limit was raised."""

    event: Literal["budget_low"]
    budget: Budget
    used: float
    """Iterations, US dollars, tokens, seconds, or attempts since the last gain (`patience`)."""
    limit: float
    iteration: int
    """The one that goes on; between two the last one that was finished."""


class SampleTold(BaseModel):
    """One kernel of several for the same hypothesis."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    sample: int
    """From 1."""
    turn: str
    """Its coder's, as the transcript's file is called."""
    kernel: str | None
    """Hash of its content; null when its coder left none."""
    seconds: float | None
    """Of a short timing, side by side with the others and the best; null when it was not timed."""
    reason: Reason | None
    """Why a light check rejected it."""


class SamplesRaced(Line):
    """The judge chose between the kernels that were drawn for one hypothesis; the chosen one is judged in full."""

    event: Literal["samples_raced"]
    iteration: int
    change: str
    """Of the hypothesis."""
    samples: list[SampleTold]
    """Each has `sample` (from 1), `turn`, `kernel`, `seconds` of a short timing, and `reason` where it was rejected."""
    chosen: int | None
    """The sample; null when no coder left a kernel."""
    device_seconds: float
    call: str
    """Its name, which follows from its place in the run."""


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
    last: LastMeasurement | None = None
    """The best measured afresh, which the figures above are not: `seconds`, `share_of_limit`, `speedup`, and the `race`
    with the starting kernel (`decision`, `ratio`, `low`, `high`, `confidence`). Absent when it was not taken."""
    message: str | None = None
    """More of the reason `user`: that the run was handed over to another process. Absent otherwise."""


class RunPaused(Line):
    """The run is at a limit and its process waits for a person. `run_resumed` follows once one raised the limit."""

    event: Literal["run_paused"]
    reason: StopReason
    go_on: str
    """What to do."""


class RunFailed(Line):
    """The run ended with an error. A resumed run goes on after it."""

    event: Literal["run_failed"]
    error: str
    """Its class."""
    message: str
    advice: str
    reason: StopReason | None = None
    """Which fault of the machine it was: also the outcome's reason. Absent for an error of another kind."""
