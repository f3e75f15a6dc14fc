"""What a run came to, read back from its folder: one record for the terminal, the report and `--json`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from agents.last_measurement import LastMeasurement
from agents.limits import STOP_WORDS, StopReason
from agents.pausing import paused_in
from app.claim import Claim, claim_of, start_of
from app.end_words import end_words
from app.go_on import RAISES, how_to_go_on
from app.serve.waiting import waits_for
from app.spending import Spending, spending_of
from memory.files import RunFolderError, open_plain
from memory.runs import Attempt, RunFolder
from memory.tail import is_held
from tools.records import Accepted, Interval, Verdict, WorkloadTiming, weighted_geomean

_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)

RunState: TypeAlias = Literal["ended", "paused", "open", "stopped"]
"""`open`: a process works on it, or the file system can't tell. `stopped`: none does, and it has not ended, as after a
kill; what it measured is kept. `paused`: it waits at its limit for a person."""


class WorkloadRow(BaseModel):
    """One workload of the final table. Times are seconds."""

    model_config = ConfigDict(frozen=True)

    workload: str
    start_seconds: float | None
    """As `Summary.start_measured` says; None when the starting kernel was rejected, or when there was none."""
    best_seconds: float
    interval: Interval
    baseline_seconds: float
    limit_seconds: float
    gain: float | None = None
    """Start time / best time: of the race on this workload alone where there was one, else of the two medians."""
    gain_low: float | None = None
    gain_high: float | None = None
    """The race's interval; None of medians."""

    @property
    def speedup(self) -> float:
        """Baseline time / best time."""
        return self.baseline_seconds / self.best_seconds

    @property
    def share_of_limit(self) -> float:
        return self.limit_seconds / self.best_seconds


class Summary(BaseModel):
    """A run in figures. Everything about the best kernel is absent when no attempt was accepted."""

    model_config = ConfigDict(frozen=True)

    run: str
    path: str
    task: str
    state: RunState
    reason: StopReason | None = None
    reason_words: str = ""
    standing: str = ""
    """What goes on with a run that has not ended, in words."""
    best: str | None = None
    best_change: str = ""
    measured: Literal["afresh", "in the run"] | None = None
    """Where the figures below come from: the last, fresh measurement of the winner, or the attempt's own verdict."""
    start_seconds: float | None = None
    """Measured, never made of the best's time and a gain: see `start_measured`."""
    start_measured: Literal["in the last race", "as judged at the start"] | None = None
    best_seconds: float | None = None
    claim: Claim | None = None
    """What may be claimed against the starting kernel; None while no attempt was accepted."""
    gain: float | None = None
    """Starting kernel's time / best time where the claim is one, by its race; None where that was not confirmed."""
    gain_interval: Interval | None = None
    """Of a gain that the last race confirmed."""
    speedup: float | None = None
    """Time of the fastest baseline (NumPy/BLAS, or PyTorch as it is or compiled) / best time."""
    speedup_over_eager: float | None = None
    speedup_over_compile: float | None = None
    """Against PyTorch as it is, and against the better torch.compile, where both were timed."""
    share_of_limit: float | None = None
    cores_used_by_others: float | None = None
    """Present when other programs disturbed the measurement behind these figures."""
    throttled: float | None = None
    """Present when the device stayed throttled in a share of that measurement's timed calls."""
    rows: tuple[WorkloadRow, ...] = ()
    attempts: int = 0
    counts: dict[str, int] = {}
    """Attempts by outcome: kept, same, slower, rejected, unjudged."""
    rejections: dict[str, int] = {}
    """Rejected attempts by the judge's reason."""
    iterations: int | None = None
    elapsed: float | None = None
    start_problem: str = ""
    """Why the starting kernel was not accepted."""
    spending: Spending = Spending()
    """What the models did and what they cost."""

    @property
    def gain_heading(self) -> str:
        """What the ratios of `rows` are."""
        raced = all(row.gain_low is not None for row in self.rows)
        return "start/best, raced" if raced else "start/best, medians"

    @property
    def accepted(self) -> int:
        return sum(self.counts.get(name, 0) for name in ("kept", "same", "slower"))


def read_verdict(run: RunFolder, attempt: str) -> Verdict:
    """The judge's whole answer about an attempt. RunFolderError when what is there is none."""
    try:
        return _VERDICT.validate_python(run.verdict(attempt))
    except ValidationError as error:
        where = run.folder_of(attempt) / "verdict.json"
        raise RunFolderError(f"{where} does not hold a verdict", "The run folder may be damaged.") from error


def task_name(run: RunFolder) -> str:
    """The task's name as the run was given it."""
    task = run.config().get("task")
    name = task.get("name") if isinstance(task, dict) else None
    return str(name or run.id)


def refuted(run: RunFolder, attempts: Iterable[Attempt]) -> frozenset[str]:
    """Attempts that were the best once, until a fresh measurement did not confirm it."""
    return frozenset(
        attempt.id
        for attempt in attempts
        if attempt.outcome == "kept" and (run.final(attempt.id) or {}).get("confirmed") is False
    )


def summarize(run: RunFolder) -> Summary:
    """Read a run folder, ended or not. Raises RunFolderError when it can't be read."""
    attempts = run.attempts()
    outcome = run.outcome() or {}
    known = next((reason for reason in STOP_WORDS if reason == outcome.get("reason")), None)
    at_work = is_at_work(run)
    state: RunState = "ended" if outcome else "stopped" if at_work is False else "open"
    waits = ""
    if known is not None and known in RAISES and paused_in(run.path) is not None:
        state = "ended" if at_work is False else "paused"
        went = ", and the run waits for a person" if state == "paused" else "; who waited for a larger one is gone"
        waits = f"{went}: {how_to_go_on(run, known)}"
    fields = {
        "run": run.id,
        "path": str(run.path),
        "task": task_name(run),
        "state": state,
        "reason": known,
        "reason_words": (end_words(known, run.events) if known else "") + waits,
        "standing": "" if outcome else _standing(run, at_work),
        "iterations": outcome.get("iterations"),
        "elapsed": outcome.get("elapsed"),
        "attempts": len(attempts),
        "counts": _count([attempt.outcome for attempt in attempts]),
        "rejections": _count([_reason(run, a) for a in attempts if a.outcome == "rejected"]),
        "start_problem": _start_problem(attempts),
        "spending": spending_of(run),
    }
    return Summary.model_validate(fields | _best_fields(run, attempts, outcome.get("final")))


def is_at_work(run: RunFolder) -> bool | None:
    """Whether a process works on the run, or waits with it; None when the file system can't tell."""
    try:
        with open_plain(run.path / "events.jsonl") as file:
            return is_held(file)
    except OSError:
        return False


def _standing(run: RunFolder, at_work: bool | None) -> str:
    waits = waits_for(run.events())
    if at_work:
        return waits or "a process works on it"
    go_on = f"go on with: warpsmith resume {shlex.quote(str(run.path))}"
    if at_work is None:
        return f"it still runs, or it was stopped from outside; then {go_on}"
    before = f", and before that it waited ({waits})" if waits else ""
    return f"no process works on it any more{before}; {go_on}"


def _best_fields(run: RunFolder, attempts: list[Attempt], final: object) -> dict[str, object]:
    known = {attempt.id: attempt for attempt in attempts}
    best = known.get(run.best() or "")
    if best is None:
        return {}
    own = read_verdict(run, best.id)
    fresh = _VERDICT.validate_python(final) if final is not None else None
    verdict = fresh if isinstance(fresh, Accepted) else own
    if not isinstance(verdict, Accepted):
        return {}
    start = start_of(known)
    last = LastMeasurement.of(verdict) if verdict is fresh else None
    raced_last = last is not None and last.medians is not None
    beside = _beside(run, best, start, verdict, raced_last)
    claim = claim_of(best, start, known, last)
    rows = tuple(_row(timing, beside.get(timing.workload), claim, len(verdict.timings)) for timing in verdict.timings)
    return {
        "best": best.id,
        "best_change": best.change,
        "measured": "afresh" if verdict is fresh else "in the run",
        "start_seconds": _mean(beside, verdict),
        "start_measured": None if not beside or claim.standing == "start" else _WHEN[raced_last],
        "best_seconds": verdict.seconds,
        "claim": claim,
        "gain": claim.gain,
        "gain_interval": _interval(claim),
        "speedup": verdict.speedup,
        "speedup_over_eager": verdict.speedup_over_eager,
        "speedup_over_compile": verdict.speedup_over_compile,
        "share_of_limit": verdict.share_of_limit,
        "cores_used_by_others": verdict.cores_used_by_others,
        "throttled": verdict.throttled,
        "rows": rows,
    }


def _beside(
    run: RunFolder, best: Attempt, start: Attempt | None, verdict: Accepted, raced_last: bool
) -> dict[str, float]:
    """The starting kernel's seconds by workload, as they were measured: in turns with the best where it was raced last,
    else when it was judged. Empty where it has none of one."""
    if start is None:
        return {}
    if best is start:  # one kernel: two measurements of it are no gain
        return {timing.workload: timing.seconds for timing in verdict.timings}
    if raced_last:
        return {t.workload: t.incumbent_seconds for t in verdict.timings if t.incumbent_seconds is not None}
    judged = read_verdict(run, start.id)
    times = {t.workload: t.seconds for t in judged.timings} if isinstance(judged, Accepted) else {}
    return times if all(timing.workload in times for timing in verdict.timings) else {}


_WHEN = {True: "in the last race", False: "as judged at the start"}


def _mean(seconds: dict[str, float], verdict: Accepted) -> float | None:
    """By weight; None where one workload has none."""
    pairs = [(t.weight, seconds[t.workload]) for t in verdict.timings if t.workload in seconds]
    return weighted_geomean(pairs) if len(pairs) == len(verdict.timings) else None


def _row(timing: WorkloadTiming, start: float | None, claim: Claim, workloads: int) -> WorkloadRow:
    race = claim.workloads.get(timing.workload) or (claim if workloads == 1 and claim.low is not None else None)
    medians = start / timing.seconds if start else None
    return WorkloadRow(
        workload=timing.workload,
        start_seconds=start,
        best_seconds=timing.seconds,
        interval=timing.interval,
        baseline_seconds=timing.baseline_seconds,
        limit_seconds=timing.limit_seconds,
        gain=medians if race is None else race.ratio,
        gain_low=None if race is None else race.low,
        gain_high=None if race is None else race.high,
    )


def _interval(claim: Claim) -> Interval | None:
    if claim.standing != "confirmed" or claim.low is None or claim.high is None or claim.confidence is None:
        return None
    return Interval(low=claim.low, high=claim.high, confidence=claim.confidence)


def _reason(run: RunFolder, attempt: Attempt) -> str:
    return str(run.verdict(attempt.id).get("reason", "unknown"))


def _start_problem(attempts: list[Attempt]) -> str:
    start = next((attempt for attempt in attempts if attempt.id == "a0"), None)
    return start.note if start is not None and start.outcome in ("rejected", "unjudged") else ""


def _count(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}
