"""How an attempt's time moved from another's, by the best evidence there is.

Times that were measured apart drift with the machine, so a race counts before them: the judge times each attempt in
turns with the best by then. Where that one is not the attempt asked about, their races are chained: each attempt raced
an earlier one, so any two have a way over a common one. Medians are taken only where no chain leads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

Evidence: TypeAlias = Literal["raced", "chained", "medians"]
NOISE: Final = 0.01
"""Relative movement of medians below which a time counts as unmoved."""
NOISY: Final = 1.0
"""Half-known movements beyond this are told as noise: a time that may have doubled is no figure to read."""
_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_RACE: Final = re.compile(rf"^{_NUMBER}x (a\d+) \[{_NUMBER}, {_NUMBER}\]")
"""How the note of an attempt begins that was raced: its ratio to the best by then, which that was, the interval."""
_DECIDED: Final = {"kept": -1, "slower": 1}
"""Which way the time went where a race decided; in all other cases it decided nothing."""


BASES: Final[Mapping[Evidence, str]] = {
    "raced": "raced",
    "chained": "by races against others",
    "medians": "not raced",
}
"""What a movement was told by, in words."""


OUTCOME_WORDS: Final = {"same": "not told apart"}
"""Where the record's word would say more than is known: two kernels that a race could not tell apart may differ."""


def outcome_words(outcome: object) -> str:
    """An outcome, or what a race decided, as a person reads it: `kept`, `not told apart`, `slower`, `rejected`…"""
    return OUTCOME_WORDS.get(str(outcome), str(outcome))


class Measured(Protocol):
    """What is read of an attempt. seconds: None where it was not accepted."""

    @property
    def id(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def note(self) -> str: ...
    @property
    def seconds(self) -> float | None: ...


@dataclass(frozen=True)
class Race:
    """ratio: time of `against` / own time, from paired timings; low, high: its interval."""

    against: str
    ratio: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """`0.38x a2 [0.07, 1.71]`."""
        return f"{self.ratio:.2f}x {self.against} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Movement:
    """ratio: time of `against` / own time. low, high: its interval, of a chain the product of its races' ends, which is
    wider than theirs; None for medians. direction: -1 less time, 1 more, 0 none that can be told from noise."""

    against: str
    evidence: Evidence
    ratio: float
    direction: int
    low: float | None = None
    high: float | None = None

    @property
    def change(self) -> float:
        """Of the time, relative: -0.2 is a fifth less."""
        return 1 / self.ratio - 1

    @property
    def unsure(self) -> float | None:
        """How far the time may have moved either way, relative; None where it moved or the interval is unknown."""
        if self.direction or self.low is None or self.high is None:
            return None
        return max(abs(1 / self.low - 1), abs(1 / self.high - 1))

    @property
    def words(self) -> str:
        """`-18 %`; `±6 %` or `noisy` where its direction can't be told; `~-18 %` of medians."""
        if self.unsure is not None:
            return unsure_words(self.unsure)
        return f"{'~' if self.evidence == 'medians' else ''}{_percent(self.change, '+')}"

    @property
    def basis(self) -> str:
        """What it was told by, in words."""
        return BASES[self.evidence]


def unsure_words(share: float) -> str:
    """How far a time may have moved either way, relative: `±6 %`, or `noisy` where that says nothing."""
    return "noisy" if share >= NOISY else f"±{_percent(share)}"


def race_in(note: str) -> Race | None:
    """The race that an attempt's note tells of."""
    found = _RACE.match(note)
    if found is None:
        return None
    ratio, low, high = float(found[1]), float(found[3]), float(found[4])
    return Race(found[2], ratio, low, high) if min(ratio, low, high) > 0 else None


def movement(attempt: Measured, reference: Measured | None, known: Mapping[str, Measured]) -> Movement | None:
    """How the time of `attempt` moved from that of `reference`; None where one of them has none. known: all attempts
    by id."""
    if reference is None or not attempt.seconds or not reference.seconds:
        return None
    race = race_in(attempt.note)
    if race is not None and race.against == reference.id:
        decided = _DECIDED.get(attempt.outcome, 0)
        return Movement(reference.id, "raced", race.ratio, decided, race.low, race.high)
    ours, theirs = _races_from(attempt, known), _races_from(reference, known)
    meeting = next((name for name in ours if name in theirs), None)
    if meeting is None:
        ratio = reference.seconds / attempt.seconds
        change = 1 / ratio - 1
        return Movement(reference.id, "medians", ratio, 0 if abs(change) < NOISE else 1 if change > 0 else -1)
    mine, other = ours[meeting], theirs[meeting]
    low, high = mine.low / other.high, mine.high / other.low
    direction = -1 if low > 1 else 1 if high < 1 else 0
    return Movement(reference.id, "chained", mine.ratio / other.ratio, direction, low, high)


def _races_from(attempt: Measured, known: Mapping[str, Measured]) -> dict[str, Race]:
    """Each attempt that a chain of races leads to, nearest first, with the product of the races on the way."""
    found = {attempt.id: Race(attempt.id, 1.0, 1.0, 1.0)}
    at: Measured | None = attempt
    so_far = found[attempt.id]
    while at is not None and (race := race_in(at.note)) is not None and race.against not in found:
        so_far = Race(race.against, so_far.ratio * race.ratio, so_far.low * race.low, so_far.high * race.high)
        found[race.against] = so_far
        at = known.get(race.against)
    return found


def _percent(share: float, sign: str = "") -> str:
    value = share * 100
    return f"{value:{sign}.1f} %" if abs(value) < 10 else f"{value:{sign}.0f} %"
