"""The profile of the best kernel beside an earlier one's: what bounds each, and how its metrics moved."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, ValidationError

from app.judging import by_reason
from memory.runs import Attempt, RunFolder
from tools.profiles import Metric, Profile

_FIRST_METRICS = 14
"""Metrics that are shown at once; the rest is folded away."""


class Seen(BaseModel):
    """One attempt's profile."""

    model_config = ConfigDict(frozen=True)

    attempt: str
    profile: Profile
    missing: tuple[str, ...]
    """What could not be measured, those with one reason joined."""

    @property
    def cause(self) -> str:
        """What is behind the class, by a GPU's counters; empty without them."""
        counters = self.profile.counters
        return counters.cause.replace("_", " ") if counters is not None and counters.status == "counted" else ""


class Moved(BaseModel):
    """A metric of one or both profiles."""

    model_config = ConfigDict(frozen=True)

    name: str
    unit: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        """Relative: 0.5 for half as much again."""
        if self.before is None or self.after is None or self.before == 0:
            return None
        return self.after / self.before - 1


class Profiles(BaseModel):
    """`before` is the start's, else the earliest on the way to the best; None when only one was profiled."""

    model_config = ConfigDict(frozen=True)

    before: Seen | None
    after: Seen
    metrics: tuple[Moved, ...]
    more: tuple[Moved, ...]


def profiles(run: RunFolder, way: Sequence[Attempt]) -> Profiles | None:
    """Of the attempts on the way to the best, the first and the last that were profiled."""
    found = [seen for attempt in way if (seen := read_profile(run, attempt.id)) is not None]
    if not found:
        return None
    before, after = (found[0] if len(found) > 1 else None), found[-1]
    moved = _moved(before.profile.metrics if before else (), after.profile.metrics)
    return Profiles(before=before, after=after, metrics=moved[:_FIRST_METRICS], more=moved[_FIRST_METRICS:])


def read_profile(run: RunFolder, attempt: str) -> Seen | None:
    """An attempt's profile; None where it has none, or one that this version can't read."""
    told = run.profile(attempt)
    if told is None:
        return None
    try:
        profile = Profile.model_validate(told)
    except ValidationError:
        return None
    return Seen(attempt=attempt, profile=profile, missing=tuple(by_reason(profile.missing)))


def _moved(before: Sequence[Metric], after: Sequence[Metric]) -> tuple[Moved, ...]:
    """Those that both have first, in the order of the later profile."""
    old, new = {m.name: m for m in before}, {m.name: m for m in after}
    names = [*(n for n in new if n in old), *(n for n in new if n not in old), *(n for n in old if n not in new)]
    return tuple(
        Moved(
            name=name,
            unit=(new.get(name) or old[name]).unit,
            before=old[name].value if name in old else None,
            after=new[name].value if name in new else None,
        )
        for name in names
    )
