"""What may be claimed of a run's best kernel against the starting one. Every place that shows a gain asks here.

The last race decides. Where it could not tell the two apart no gain is claimed, whatever the search had found; before
there was one, the search's own races say how far it came so far, and are called that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.last_measurement import UNMOVED, LastMeasurement, RaceTold
from app.quantities import times
from memory.movement import BASES, Evidence, Measured, movement, outcome_words

Standing: TypeAlias = Literal["confirmed", "not confirmed", "so far", "start", "no start"]
"""`confirmed`: the last race says faster. `not confirmed`: it does not. `so far`: as the search found, without a last
race. `start`: the starting kernel is the best. `no start`: there is none, or it was not accepted."""
NOT_CONFIRMED: Final = "not confirmed"
UNSURE: Final = "the last race is not sure of it: too few calls, or its fresh processes did not agree"
"""Where its interval alone would bear it out."""
NAMED: Final = 2
"""Workloads that are named in a cell."""


class Judged(Measured, Protocol):
    """An attempt, with the iteration that it came of."""

    @property
    def iteration(self) -> int: ...


class Claim(BaseModel):
    """`ratio` is the start's time / the best's time, `low` to `high` its interval. All is absent of `no start`."""

    model_config = ConfigDict(frozen=True)

    standing: Standing
    evidence: Evidence | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    """Of the interval; None of one that the search's races give, which is made of several."""
    decision: Literal["faster", "same", "slower"] | None = None
    """What the last race said."""
    workloads: dict[str, RaceTold] = {}
    """The last race on each workload alone."""
    medians: float | None = None
    """The ratio by the medians of the last race; of two verdicts where there was none."""
    longer: tuple[str, ...] = ()
    """Workloads whose median became longer, in runs that do not tell of each workload's own race."""

    @property
    def gain(self) -> float | None:
        """The ratio where one is claimed."""
        if self.standing == "so far" and self.evidence != "medians" and (self.low or 0.0) <= 1.0:
            return None
        return None if self.standing == "not confirmed" else self.ratio

    @property
    def slower(self) -> tuple[str, ...]:
        """Workloads that got slower."""
        return tuple(name for name, race in self.workloads.items() if race.decision == "slower") or self.longer

    @property
    def brief(self) -> str:
        """For a cell or a title: `2.56x`, `~1.65x` of medians alone, `not confirmed`, `2.00x, slower on odd`."""
        if self.standing == "not confirmed":
            return self.standing
        if self.ratio is not None and self.gain is None:
            return outcome_words("same")
        sign = "~" if self.evidence == "medians" else ""
        return f"{sign}{times(self.gain)}{self._but_slower}"

    @property
    def cell(self) -> str:
        """`brief` in a list of runs, where nothing beside it says what it is from: `2.48x in the search`."""
        return f"{self.brief} in the search" if self.standing == "so far" and self.gain is not None else self.brief

    def in_header(self, ended: bool) -> str:
        """Beside the best on one line of a run, which has ended or goes on: the gain, and where it comes from."""
        match self.standing:
            case "confirmed":
                return f"{times(self.ratio)} the start, raced last{self._but_slower}"
            case "not confirmed":
                return f"gain not confirmed {span_of(self.low or 0.0, self.high or 0.0)}"
            case "so far" if self.gain is None:
                return "not told apart from the start"
            case "so far":
                return f"{self.brief} the start {'in the search' if ended else 'so far'}"
            case _:
                return ""

    @property
    def label(self) -> str:
        """What `brief` is of, and where it comes from."""
        if self.standing in ("confirmed", "not confirmed"):
            return "against the start, in the last race"
        told = f", {BASES[self.evidence]} in the search" if self.evidence is not None else ""
        return f"against the start{told}"

    @property
    def interval(self) -> str:
        """`[1.62x, 3.51x], 99.5 % interval`; empty where there is none."""
        if self.low is None or self.high is None:
            return ""
        return f"{span_of(self.low, self.high)}{confidence_words(self.confidence)}"

    @property
    def sentence(self) -> str:
        """The claim in full."""
        told = " ".join(part for part in (times(self.ratio), self.interval) if part)
        match self.standing:
            case "confirmed":
                fast = f"{times(self.ratio)} as fast as the start in the last race"
                return f"{fast}, {self.interval}{self._told_of_slower}"
            case "not confirmed":
                found = "the last race could not tell the best from the start"
                found = UNSURE if (self.low or 0.0) > 1 else found
                found = "in the last race it was slower than the start" if self.decision == "slower" else found
                return f"not confirmed: {found}, {told}{self._told_of_slower}"
            case "so far":
                sign = "~" if self.evidence == "medians" else ""
                fast = f"{sign}{times(self.ratio)} as fast as the start {self.interval}".rstrip()
                return f"{fast if self.gain else f'not told apart from the start: {told}'}, {self._basis}"
            case "start":
                return "the starting kernel is the best"
            case "no start":
                return "there is no accepted starting kernel to hold it against"

    @property
    def caution(self) -> str:
        """Where medians say something else than the race; empty where they don't."""
        if self.medians is None or self.ratio is None or self.low is None or self.high is None:
            return ""
        opposite = (self.medians - 1) * (self.ratio - 1) < 0 and abs(self.medians - 1) > UNMOVED
        if self.standing == "so far":
            apart = f"The two times were measured apart and make it {times(self.medians)}: the machine's speed changed"
            return f"{apart} between them, or it was noisy" if opposite else ""
        if self.low <= self.medians <= self.high and not opposite:
            return ""
        return (
            f"The medians of the same calls make it {times(self.medians)}, not {times(self.ratio)}: "
            "they and the paired timings disagree where a machine is noisy, so measure again on a quieter one"
        )

    @property
    def _basis(self) -> str:
        return "" if self.evidence is None else f"{BASES[self.evidence]} in the search, not measured afresh"

    @property
    def _but_slower(self) -> str:
        """Few names in a cell; the sentence has all of them."""
        if not self.slower or self.standing != "confirmed":
            return ""
        return f", slower on {', '.join(self.slower) if len(self.slower) <= NAMED else f'{len(self.slower)} workloads'}"

    @property
    def _told_of_slower(self) -> str:
        """Each workload that got slower, by its own race or, where that is not known, by its median."""
        if not self.slower:
            return ""
        if self.longer:
            return f"; by its median it takes longer on workload {', '.join(self.longer)}"
        told = [f"{name} ({_race_words(self.workloads[name])})" for name in self.slower]
        return f"; but slower on workload {', '.join(told)}"


def claim_of(
    best: Judged,
    start: Judged | None,
    known: Mapping[str, Judged],
    last: LastMeasurement | None,
) -> Claim:
    """The claim that the evidence bears. start: the starting kernel, where the run has one; known: all attempts by id;
    last: the last, fresh measurement of `best`."""
    if start is not None and best.id == start.id:
        return Claim(standing="start", ratio=1.0)
    if start is None or not start.seconds:
        return Claim(standing="no start")
    if last is not None and last.race is not None:
        return _of_last(last, last.race)
    moved = movement(best, start, known)
    if moved is None:
        return Claim(standing="no start")
    medians = start.seconds / best.seconds if best.seconds else None
    return Claim(
        standing="so far",
        evidence=moved.evidence,
        ratio=moved.ratio,
        low=moved.low,
        high=moved.high,
        medians=medians,
    )


def told_claim(last: object) -> Claim | None:
    """What may be claimed by the last measurement as the event of a run's end tells of it; None where it was not
    raced."""
    try:
        found = LastMeasurement.model_validate(last)
    except ValidationError:
        return None
    return None if found.race is None else _of_last(found, found.race)


def _of_last(last: LastMeasurement, race: RaceTold) -> Claim:
    return Claim(
        standing="confirmed" if race.decision == "faster" else NOT_CONFIRMED,
        evidence="raced",
        ratio=race.ratio,
        low=race.low,
        high=race.high,
        confidence=race.confidence,
        decision=race.decision,
        workloads=last.workloads,
        medians=last.medians,
        longer=() if last.workloads else last.longer,
    )


AnyJudged = TypeVar("AnyJudged", bound=Judged)


def start_of(attempts: Mapping[str, AnyJudged]) -> AnyJudged | None:
    """The starting kernel among all attempts; None in a run that had none."""
    first = attempts.get("a0")
    return first if first is not None and first.iteration == 0 else None


def span_of(low: float, high: float) -> str:
    """An interval of ratios: `[1.62x, 3.51x]`."""
    return f"[{times(low)}, {times(high)}]"


def confidence_words(confidence: float | None) -> str:
    """`, 99.5 % interval`; empty where it is not known."""
    return "" if confidence is None else f", {confidence * 100:g} % interval"


def _race_words(race: RaceTold) -> str:
    return f"{times(race.ratio)} {span_of(race.low, race.high)}"
