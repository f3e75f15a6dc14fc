"""Hypotheses held to what was measured: did the metric move as predicted, and by how much was the prediction off?

Times are held to the races (`memory.movement`), other metrics to the profiles. Deterministic; no model is asked. What
can't be read or was not measured stays unscored rather than wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from pydantic import BaseModel, ConfigDict

from agents.ideas import kind_of
from agents.predictions import TIMES, Prediction, plain, read_prediction, sign
from agents.state import Kind
from memory.files import Json
from memory.ledger import Outcome
from memory.movement import BASES, NOISE, NOISY, Evidence, Movement, movement
from memory.runs import Attempt, RunFolder

_SHARES = ("shareoflimit", "percentofthelimit", "oflimit", "limit", "sol")
_RATES = (*_SHARES, "speedup")
"""What is more where the time is less, in the same proportion."""


class Score(BaseModel):
    """What a hypothesis came to. `change` is the metric's relative movement from the parent; `direction_right` and
    `magnitude_error` are absent when the prediction could not be read, when the metric was not measured in both, and
    when races can't tell which way it moved. Of a time `change` is that of the races, not `after / before - 1`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    metric: str
    before: float | None = None
    after: float | None = None
    change: float | None = None
    direction_right: bool | None = None
    magnitude_error: float | None = None
    """Distance of the measured relative movement from the predicted one: 0.03 when -20 % became -17 %."""
    moved: int | None = None
    """Which way, beyond noise: -1, 0 or 1; absent in older runs."""
    unsure: float | None = None
    """How far a raced metric may have moved either way where no direction can be told."""
    evidence: Evidence | None = None
    """What the movement of a time is from; None of other metrics and in older runs."""
    against: str | None = None
    """The attempt that it moved from."""

    @property
    def basis(self) -> str:
        """`against a4, raced`; empty where it is no time."""
        return "" if self.evidence is None else f"against {self.against}, {BASES[self.evidence]}"

    @property
    def judgement(self) -> str:
        """Whether the prediction came true, in words; empty where that can't be said."""
        if self.direction_right is None:
            return "too noisy to tell" if self.unsure is not None else ""
        if not self.direction_right and self.moved == 0:
            return "no movement beyond noise"
        return f"{'in' if self.direction_right else 'not in'} the predicted direction"

    @property
    def words(self) -> str:
        """The movement as the ledger says it."""
        if self.unsure is not None:
            return "noisy" if self.unsure >= NOISY else f"±{self.unsure * 100:.2g}%"
        if self.change is not None:
            percent = self.change * 100
            return f"{percent:+.1f}%" if abs(percent) < 1.5 else f"{percent:+.0f}%"
        if self.before is not None and self.after is not None:
            return f"from {self.before:.3g} to {self.after:.3g}"
        return ""


class HitRate(BaseModel):
    """How hypotheses of one kind fared. Each hypothesis counts once, by its best attempt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    tried: int
    gained: int
    """Those with an attempt that was kept."""
    scored: int
    """Those whose prediction could be held against a measurement."""
    right: int
    """Those of the scored whose metric moved in the predicted direction."""
    typical_error: float | None
    """Median distance of measured and predicted relative movement; None when no size was predicted."""


def score(
    attempt: Attempt,
    parent: Attempt | None,
    profile: Json | None,
    profile_of_parent: Json | None,
    known: Mapping[str, Attempt] | None = None,
) -> Score:
    """Hold an attempt's hypothesis against what was measured of it and of its parent. known: all attempts by id, for
    the races that lead from one to the other."""
    hypothesis = attempt.hypothesis or {}
    metric = str(hypothesis.get("metric", ""))
    before = None if parent is None else measured(metric, parent, profile_of_parent)
    after = measured(metric, attempt, profile)
    if before is None or after is None:
        return Score(metric=metric, before=before, after=after)
    prediction = read_prediction(str(hypothesis.get("expected", "")), metric).toward(before)
    timed = movement(attempt, parent, known or {}) if is_of_time(metric) else None
    if timed is not None:
        return _of_time(metric, before, after, timed, prediction)
    change = after / before - 1 if before else None
    moved = 0 if change is not None and abs(change) < NOISE else sign(after - before)
    return Score(
        metric=metric,
        before=before,
        after=after,
        change=change,
        direction_right=None if prediction.direction is None else moved == prediction.direction,
        magnitude_error=None if change is None or prediction.relative is None else abs(change - prediction.relative),
        moved=moved,
    )


def is_of_time(metric: str) -> bool:
    """Whether the metric is the time or follows from it."""
    return plain(metric) in (*TIMES, *_RATES)


def _of_time(metric: str, before: float, after: float, timed: Movement, prediction: Prediction) -> Score:
    """A race between the two that decides nothing is a prediction that did not come true; a chain of races that
    decides nothing says nothing."""
    rises = plain(metric) in _RATES
    change = timed.ratio - 1 if rises else timed.change
    moved = -timed.direction if rises else timed.direction
    silent = timed.evidence == "chained" and not timed.direction
    return Score(
        metric=metric,
        before=before,
        after=after,
        change=change,
        direction_right=None if silent or prediction.direction is None else moved == prediction.direction,
        magnitude_error=None if silent or prediction.relative is None else abs(change - prediction.relative),
        moved=moved,
        unsure=timed.unsure,
        evidence=timed.evidence,
        against=timed.against,
    )


def measured(metric: str, attempt: Attempt, profile: Json | None) -> float | None:
    """A metric's value by name: a time, the speedup, the share of the limit, or a metric of the profile."""
    name = plain(metric)
    if name in TIMES:
        return attempt.seconds
    if name in _SHARES:
        return attempt.share_of_limit
    if name == "speedup":
        return attempt.speedup
    values = _profiled(profile)
    if name in values:
        return values[name]
    near = [value for known, value in values.items() if name and (name in known or known in name)]
    return near[0] if len(near) == 1 else None


def score_iteration(run: RunFolder, attempts: Iterable[Attempt]) -> None:
    """Write down what the hypotheses of `attempts` came to. A score that is there stands."""
    known = {attempt.id: attempt for attempt in run.attempts()}
    for attempt in attempts:
        if attempt.hypothesis is None:
            continue
        parent = known.get(attempt.parent or "")
        of_parent = None if parent is None else run.profile(parent.id)
        found = score(attempt, parent, run.profile(attempt.id), of_parent, known)
        run.add_score(attempt.id, found.model_dump(mode="json"))


def hit_rates(run: RunFolder) -> list[HitRate]:
    """How each kind of idea fared in `run` so far, most tried first."""
    scores = {name: Score.model_validate(line) for name, line in run.scores().items()}
    return rates_of(run.attempts(), scores)


def rates_of(attempts: Iterable[Attempt], scores: Mapping[str, Score]) -> list[HitRate]:
    """As `hit_rates`, of these attempts and scores; attempts without a hypothesis don't count."""
    ideas: dict[tuple[int, str], list[Attempt]] = {}
    for attempt in attempts:
        if attempt.hypothesis is not None:
            ideas.setdefault((attempt.iteration, str(attempt.hypothesis.get("change"))), []).append(attempt)
    kinds: dict[Kind, list[Attempt]] = {}
    for tries in ideas.values():
        best = min(tries, key=_standing)
        kinds.setdefault(kind_of(best.hypothesis), []).append(best)
    rates = [_rate(kind, group, scores) for kind, group in kinds.items()]
    return sorted(rates, key=lambda rate: (-rate.tried, rate.kind))


def _rate(kind: Kind, group: list[Attempt], scores: Mapping[str, Score]) -> HitRate:
    found = [scores[attempt.id] for attempt in group if attempt.id in scores]
    errors = [score.magnitude_error for score in found if score.magnitude_error is not None]
    return HitRate(
        kind=kind,
        tried=len(group),
        gained=sum(attempt.outcome == "kept" for attempt in group),
        scored=sum(score.direction_right is not None for score in found),
        right=sum(score.direction_right is True for score in found),
        typical_error=median(errors) if errors else None,
    )


_RANK: dict[Outcome, int] = {"kept": 0, "same": 1, "slower": 2, "rejected": 3, "unjudged": 4}


def _standing(attempt: Attempt) -> tuple[int, float]:
    return _RANK[attempt.outcome], attempt.seconds or 0.0


def _profiled(profile: Json | None) -> dict[str, float]:
    """A profile's metrics by plain name."""
    metrics = (profile or {}).get("metrics")
    found: dict[str, float] = {}
    for metric in metrics if isinstance(metrics, list) else []:
        if isinstance(metric, dict) and isinstance(value := metric.get("value"), int | float):
            found[plain(str(metric.get("name", "")))] = float(value)
    return found
