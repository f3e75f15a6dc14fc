"""What a report claims: the best kernel beside the start, the named baselines and the limit, each with its interval.

Baselines other than the one that is timed beside every attempt are read from the task's facts, where they have names.
Not covered: how anything was measured, which is the judge's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from app.summary import Summary, WorkloadRow
from memory.files import Json
from memory.movement import outcome_words
from tools.records import Interval, weighted_geomean

Style: TypeAlias = Literal["best", "start", "baseline", "limit"]


LABELS: Final = {
    "numpy": "NumPy",
    "eager": "PyTorch eager",
    "compile": "torch.compile",
    "compile-max-autotune": "torch.compile, tuned",
}
"""How the baselines of `tools.facts.BaselineFacts` are called on a page."""


class Subject(BaseModel):
    """One thing that the best kernel is held against, or the best itself. Times are seconds, geometric means over the
    workloads by weight; so are the intervals' ends."""

    model_config = ConfigDict(frozen=True)

    name: str
    style: Style
    seconds: float
    interval: Interval | None = None
    ratio: float | None = None
    """Its time / the best's time: how many times as fast the best is. None of the best itself."""
    ratio_interval: Interval | None = None
    raced: str = ""
    """The interval of a ratio from paired, interleaved timings, in words: `[1.62x, 3.51x], 99.5 % interval`. Else
    `ratio_interval` is from both intervals' outer ends."""
    doubt: str = ""
    """Why it is not said that the best is so many times as fast: `not confirmed` by the last race, or `not told apart`
    where the interval has 1 in it."""


class Baseline(BaseModel):
    """A named way to compute the task, timed on one workload."""

    model_config = ConfigDict(frozen=True)

    name: str
    seconds: float
    interval: Interval | None = None


def subjects(summary: Summary, facts: Json | None, baseline: str) -> list[Subject]:
    """Slowest first, the best and the limit among them; empty while nothing was accepted. `baseline` is the name of the
    one that attempts are timed beside."""
    if summary.best_seconds is None or not summary.rows:
        return []
    weights = _weights(facts)
    best = _of_rows("best", "best", summary.rows, weights)
    found = [best, _limit(summary.rows, weights)]
    if summary.claim is not None and summary.claim.evidence is not None and summary.start_seconds is not None:
        found.append(_start(summary))
    found += _baselines(summary, facts, baseline, weights, best)
    return sorted(found, key=lambda subject: -subject.seconds)


def named_baselines(workload: Mapping[str, JsonValue]) -> list[Baseline]:
    """The baselines in one workload's facts, as pages call them; what is none is passed over, and older runs have
    none."""
    told = workload.get("baselines")
    entries = told if isinstance(told, list) else []
    return [found for each in entries if isinstance(each, dict) and (found := _named(each)) is not None]


def main_baseline(facts: Json | None, otherwise: str) -> str:
    """What attempts are timed beside: the fastest baseline of every workload, where that is the same one in all of
    them; `otherwise` where the facts do not name it."""
    fastest = {
        min(found, key=lambda each: each.seconds).name if (found := named_baselines(workload)) else otherwise
        for workload in _workloads(facts)
    }
    return fastest.pop() if len(fastest) == 1 else "fastest baseline" if fastest else otherwise


def _named(told: Mapping[str, JsonValue]) -> Baseline | None:
    try:
        found = Baseline.model_validate(
            {"name": told["name"], "seconds": told["seconds"], "interval": told.get("interval")}
        )
    except (ValidationError, KeyError):
        return None
    return found.model_copy(update={"name": LABELS.get(found.name, found.name)}) if found.seconds > 0 else None


def _baselines(
    summary: Summary, facts: Json | None, main: str, weights: Mapping[str, float], best: Subject
) -> list[Subject]:
    """The main one as it was timed beside the best, then those that the facts name beside it."""
    told = {str(w["workload"]): w for w in _workloads(facts)}
    parts = [(row, _main_interval(row, told.get(row.workload))) for row in summary.rows]
    rows = [
        row.model_copy(update={"best_seconds": row.baseline_seconds, "interval": interval})
        for row, interval in parts
        if interval is not None
    ]
    seconds = _mean((weights.get(row.workload, 1.0), row.baseline_seconds) for row in summary.rows)
    whole = len(rows) == len(summary.rows)
    interval = _of_rows(main, "baseline", rows, weights).interval if whole else None
    found = [_against(main, "baseline", seconds, interval, best)]
    by_name: dict[str, dict[str, Baseline]] = {}
    for workload, facts_of_it in told.items():
        for each in named_baselines(facts_of_it):
            by_name.setdefault(each.name, {})[workload] = each
    for name, timed in by_name.items():
        if name != main and all(row.workload in timed for row in summary.rows):
            found.append(_of_facts(name, timed, summary.rows, weights, best))
    return found


def _of_facts(
    name: str,
    timed: Mapping[str, Baseline],
    rows: Iterable[WorkloadRow],
    weights: Mapping[str, float],
    best: Subject,
) -> Subject:
    parts = [(weights.get(row.workload, 1.0), timed[row.workload]) for row in rows]
    intervals = [(weight, each.interval) for weight, each in parts if each.interval is not None]
    interval = None
    if len(intervals) == len(parts):
        low, high = _mean((w, i.low) for w, i in intervals), _mean((w, i.high) for w, i in intervals)
        interval = Interval(low=low, high=high)
    return _against(name, "baseline", _mean((w, each.seconds) for w, each in parts), interval, best)


def _main_interval(row: WorkloadRow, facts: Mapping[str, JsonValue] | None) -> Interval | None:
    """The facts' interval, moved to where the baseline was when the best was measured."""
    told = (facts or {}).get("baseline_interval")
    then = (facts or {}).get("baseline_seconds")
    if not isinstance(told, dict) or not isinstance(then, int | float) or then <= 0:
        return None
    try:
        interval = Interval.model_validate(told)
    except ValidationError:
        return None
    moved = row.baseline_seconds / then
    return Interval(low=interval.low * moved, high=interval.high * moved, confidence=interval.confidence)


def _start(summary: Summary) -> Subject:
    assert summary.start_seconds is not None and summary.claim is not None
    claim = summary.claim
    return Subject(
        name="start",
        style="start",
        seconds=summary.start_seconds,
        ratio=claim.ratio,
        raced=claim.interval,
        doubt="" if claim.gain is not None else claim.brief,
    )


def _limit(rows: tuple[WorkloadRow, ...], weights: Mapping[str, float]) -> Subject:
    seconds = _mean((weights.get(row.workload, 1.0), row.limit_seconds) for row in rows)
    best = _mean((weights.get(row.workload, 1.0), row.best_seconds) for row in rows)
    return Subject(name="hardware limit", style="limit", seconds=seconds, ratio=seconds / best)


def _of_rows(name: str, style: Style, rows: Iterable[WorkloadRow], weights: Mapping[str, float]) -> Subject:
    parts = [(weights.get(row.workload, 1.0), row) for row in rows]
    low, high = _mean((w, row.interval.low) for w, row in parts), _mean((w, row.interval.high) for w, row in parts)
    seconds = _mean((w, row.best_seconds) for w, row in parts)
    return Subject(name=name, style=style, seconds=seconds, interval=Interval(low=low, high=high))


def _against(name: str, style: Style, seconds: float, interval: Interval | None, best: Subject) -> Subject:
    ratio = None
    if interval is not None and best.interval is not None:
        ratio = Interval(low=interval.low / best.interval.high, high=interval.high / best.interval.low)
    doubt = outcome_words("same") if ratio is not None and ratio.low <= 1 <= ratio.high else ""
    return Subject(
        name=name,
        style=style,
        seconds=seconds,
        interval=interval,
        ratio=seconds / best.seconds,
        ratio_interval=ratio,
        doubt=doubt,
    )


def _mean(pairs: Iterable[tuple[float, float]]) -> float:
    """The weighted geometric mean; ends of intervals that are not positive count as the least that is."""
    return weighted_geomean([(weight, max(value, 1e-12)) for weight, value in pairs])


def _workloads(facts: Json | None) -> list[Mapping[str, JsonValue]]:
    told = (facts or {}).get("workloads")
    return [w for w in (told if isinstance(told, list) else []) if isinstance(w, dict) and "workload" in w]


def _weights(facts: Json | None) -> dict[str, float]:
    return {
        str(w["workload"]): float(weight)
        for w in _workloads(facts)
        if isinstance(weight := w.get("weight"), int | float) and weight > 0
    }
