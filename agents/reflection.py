"""Hypotheses held to what was measured: did the metric move as predicted, and by how much was the prediction off?

Deterministic; no model is asked. A prediction is a person's phrase (`-20 %`, `2x faster`, `from 30 % to 60 %`), so what
can't be read or was not measured stays unscored rather than wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from pydantic import BaseModel, ConfigDict

from agents.ideas import kind_of
from agents.state import Kind
from memory.files import Json
from memory.ledger import Outcome
from memory.runs import Attempt, RunFolder

NOISE = 0.01
"""Relative movement below which a metric counts as unmoved."""
_TIMES = ("seconds", "time", "runtime", "latency", "duration", "kerneltime", "walltime", "executiontime")
_SHARES = ("shareoflimit", "percentofthelimit", "oflimit", "limit", "sol")
_PLAIN_MARKS = {0x2212: "-", 0x2013: " to ", 0xD7: "x", 0x2192: "->"}
"""A minus, an en dash, a multiplication sign and an arrow, as people paste them."""
_NUMBER = r"([+-]?\d+(?:\.\d+)?(?:e-?\d+)?)"
_LESS = re.compile(r"\b(less|lower|fewer|down|fall|drop|decreas|reduc|shrink|smaller|cut|below|under|halv|fast)")
_MORE = re.compile(r"\b(more|higher|up|rise|increas|grow|larger|gain|above|over|doubl|slow)")
_UNMOVED = re.compile(r"\b(unchanged|same|constant|no change|not change|stays)\b")


@dataclass(frozen=True)
class Prediction:
    """What an `expected` text says. direction: -1, 0 or 1. relative: -0.2 for a fifth less. target: the figure that the
    metric should reach, as written; `in_percent` when it was."""

    direction: int | None = None
    relative: float | None = None
    target: float | None = None
    in_percent: bool = False

    def toward(self, before: float) -> Prediction:
        """With the movement that leads from `before` to the target."""
        if self.target is None or not before:
            return self
        target = self.target / 100 if self.in_percent and abs(before) <= 1 else self.target
        relative = target / before - 1
        return Prediction(direction=_sign(relative), relative=relative)


class Score(BaseModel):
    """What a hypothesis came to. `change` is the metric's relative movement from the parent; the last two are absent
    when the prediction could not be read or the metric was not measured in both."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    metric: str
    before: float | None = None
    after: float | None = None
    change: float | None = None
    direction_right: bool | None = None
    magnitude_error: float | None = None
    """Distance of the measured relative movement from the predicted one: 0.03 when -20 % became -17 %."""

    @property
    def words(self) -> str:
        """The movement as the ledger says it."""
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


def read_prediction(expected: str, metric: str) -> Prediction:
    """What `expected` says about `metric`. Nothing that can be read gives an empty prediction."""
    text = " ".join(expected.lower().translate(_PLAIN_MARKS).split())
    text = re.sub(r"\b(up to|at most|about|roughly|around|approximately) |(?<=[+-]) (?=\d)", "", text)
    is_time = _plain(metric) in _TIMES
    for read in _READINGS:
        if (found := read(text, is_time)) is not None:
            return found
    return Prediction(direction=_direction_in(text, is_time))


def score(attempt: Attempt, parent: Attempt | None, profile: Json | None, profile_of_parent: Json | None) -> Score:
    """Hold an attempt's hypothesis against what was measured of it and of its parent."""
    hypothesis = attempt.hypothesis or {}
    metric = str(hypothesis.get("metric", ""))
    before = None if parent is None else measured(metric, parent, profile_of_parent)
    after = measured(metric, attempt, profile)
    if before is None or after is None:
        return Score(metric=metric, before=before, after=after)
    change = after / before - 1 if before else None
    prediction = read_prediction(str(hypothesis.get("expected", "")), metric).toward(before)
    moved = 0 if change is not None and abs(change) < NOISE else _sign(after - before)
    return Score(
        metric=metric,
        before=before,
        after=after,
        change=change,
        direction_right=None if prediction.direction is None else moved == prediction.direction,
        magnitude_error=None if change is None or prediction.relative is None else abs(change - prediction.relative),
    )


def measured(metric: str, attempt: Attempt, profile: Json | None) -> float | None:
    """A metric's value by name: a time, the speedup, the share of the limit, or a metric of the profile."""
    name = _plain(metric)
    if name in _TIMES:
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
        run.add_score(attempt.id, score(attempt, parent, run.profile(attempt.id), of_parent).model_dump(mode="json"))


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
            found[_plain(str(metric.get("name", "")))] = float(value)
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _direction_in(text: str, is_time: bool) -> int | None:
    """Which way the words point. `faster` is less time, and more of anything else."""
    if _UNMOVED.search(text):
        return 0
    less, more = _LESS.search(text), _MORE.search(text)
    if (less is None) == (more is None):
        return None
    word = (less or more or [""])[0]
    if not is_time and word in ("fast", "slow"):
        return 1 if word == "fast" else -1
    return -1 if less else 1


def _from_to(text: str, _is_time: bool) -> Prediction | None:
    """`from 30 % to 60 %`, `30 -> 60`."""
    found = re.search(rf"(?:from )?{_NUMBER} ?[^\d\s]* ?(?:->|\bto\b) ?{_NUMBER}", text)
    if found is None or (not text.startswith("from") and "->" not in text):
        return None
    before, after = float(found[1]), float(found[2])
    if not before:
        return None
    return Prediction(direction=_sign(after - before), relative=after / before - 1)


def _percent(text: str, is_time: bool) -> Prediction | None:
    """`-20 %`, `+5 to +10 %`, `20 % less`, `at least 15 % faster`. Without a sign and a direction it is a target."""
    found = re.search(rf"{_NUMBER}(?: ?%?(?: to |\.\.){_NUMBER})? ?(?:%|percent)", text)
    if found is None:
        return None
    values = [float(value) for value in found.groups() if value is not None]
    size = sum(abs(value) for value in values) / len(values) / 100
    if found[1][0] in "+-":
        direction: int | None = _sign(float(found[1]))
    elif re.search(r"(\bto\b|[<>=≥≤]|\b(?:at least|above|below|under|over|reach)\b) ?[\d.]+ ?%?\s*$", text):
        return Prediction(_direction_in(text, is_time), target=values[-1], in_percent=True)
    else:
        direction = _direction_in(text, is_time)
    if direction is None:
        return Prediction(target=values[-1], in_percent=True)
    if is_time and direction < 0 and "fast" in text:
        return Prediction(direction, 1 / (1 + size) - 1)
    return Prediction(direction, direction * size)


def _factor(text: str, is_time: bool) -> Prediction | None:
    """`2x`, `x1.5`, `1.3x faster`, `halve`, `double`."""
    if "halv" in text or re.search(r"\bhalf\b", text):
        return Prediction(-1, -0.5)
    if "doubl" in text:
        return Prediction(1, 1.0)
    found = re.search(rf"{_NUMBER} ?x\b|\bx ?{_NUMBER}", text)
    factor = float(found[1] or found[2]) if found else 0.0
    if factor <= 0:
        return None
    lowers = is_time or bool(re.search(r"\b(less|fewer|lower|smaller)\b", text))
    ratio = 1 / factor if lowers and factor > 1 else factor
    return Prediction(_sign(ratio - 1), ratio - 1)


_READINGS: tuple[Callable[[str, bool], Prediction | None], ...] = (_from_to, _percent, _factor)
