"""What the last, fresh measurement of a winner found, in the figures that a claim rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from tools.records import Accepted, Comparison, Verdict, weighted_geomean

UNMOVED: Final = 0.01
"""Medians that are so near to each other are called the same here."""
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)


class RaceTold(BaseModel):
    """A race against the starting kernel. `ratio` is its time / the best's time, from paired, interleaved timings."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    decision: Literal["faster", "same", "slower"]
    """`same`: the race could not tell them apart."""
    ratio: float
    low: float
    high: float
    confidence: float
    """Of the interval from `low` to `high`: 0.995 is 99.5 %."""

    @classmethod
    def of(cls, race: Comparison) -> RaceTold:
        interval = race.interval
        return cls(
            decision=race.decision,
            ratio=race.ratio,
            low=interval.low,
            high=interval.high,
            confidence=interval.confidence,
        )


class LastMeasurement(BaseModel):
    """The best kernel measured afresh in new processes, in turns with the starting kernel where there is one."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    seconds: float
    share_of_limit: float
    speedup: float
    """Baseline's time / its time."""
    race: RaceTold | None = None
    """Against the starting kernel; absent where that is the best, or was not accepted."""
    workloads: dict[str, RaceTold] = {}
    """The same on each workload alone; empty in older runs."""
    medians: float | None = None
    """The starting kernel's time / the best's by the medians of that race, which a noisy machine moves apart."""
    longer: tuple[str, ...] = ()
    """Of several workloads those whose median became longer."""
    cores_used_by_others: float | None = None
    """Present when other programs disturbed it."""
    throttled: float | None = None
    """Present when the device stayed throttled in a share of its timed calls: the largest of a workload."""

    @classmethod
    def of(cls, verdict: Accepted) -> LastMeasurement:
        """What the verdict of the last measurement says."""
        race = verdict.comparison
        return cls(
            seconds=verdict.seconds,
            share_of_limit=verdict.share_of_limit,
            speedup=verdict.speedup,
            race=None if race is None else RaceTold.of(race),
            workloads={} if race is None else dict(_by_workload(verdict)),
            medians=None if race is None else _medians(verdict),
            longer=() if race is None else _longer(verdict),
            cores_used_by_others=verdict.cores_used_by_others,
            throttled=verdict.throttled,
        )


def _longer(verdict: Accepted) -> tuple[str, ...]:
    slower = [t.workload for t in verdict.timings if (t.incumbent_seconds or t.seconds) < t.seconds * (1 - UNMOVED)]
    return tuple(slower) if len(verdict.timings) > 1 else ()


def told_of(final: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    """`last`, as the event of a run's end has it; empty where the winner was not measured afresh. final: the verdict of
    that as JSON."""
    verdict = None if final is None else _VERDICT.validate_python(final)
    if not isinstance(verdict, Accepted):
        return {}
    return {"last": LastMeasurement.of(verdict).model_dump(mode="json", exclude_none=True)}


def _by_workload(verdict: Accepted) -> Iterator[tuple[str, RaceTold]]:
    """The races of the last stage that tells of them, of workloads that there are."""
    told: Any = next((stage.details["races"] for stage in verdict.stages[::-1] if "races" in stage.details), {})
    for timing in verdict.timings:
        try:
            yield timing.workload, RaceTold.of(Comparison.model_validate(told[timing.workload]))
        except (KeyError, TypeError, ValidationError):
            continue


def _medians(verdict: Accepted) -> float | None:
    pairs = [(t.weight, t.incumbent_seconds / t.seconds) for t in verdict.timings if t.incumbent_seconds]
    return weighted_geomean(pairs) if len(pairs) == len(verdict.timings) else None
