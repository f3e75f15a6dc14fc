"""What a run leaves to later runs: a claim, when it applies, and what the judge measured for and against it.

A lesson says one of three things: that a change helps, that it gives no gain, or that it fails. Each piece of evidence
is an attempt's measured effect against the attempt it came from; whether it speaks for or against the lesson is a
table. Not covered: storing (`memory.lesson_store`) and working out effects, which belongs to those who know verdicts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory.index import Hit
from memory.words import words_of

Says: TypeAlias = Literal["helps", "no_gain", "fails"]
EffectKind: TypeAlias = Literal["gain", "same", "loss", "rejected"]

SPEAKS_FOR: Final[dict[Says, dict[EffectKind, bool | None]]] = {
    "helps": {"gain": True, "same": False, "loss": False, "rejected": None},
    "no_gain": {"gain": False, "same": True, "loss": True, "rejected": None},
    "fails": {"gain": False, "same": False, "loss": False, "rejected": True},
}
"""Whether a measured effect confirms (True) or contradicts (False) a lesson. A rejected kernel says nothing about the
speed of a right one."""
FADED: Final = 0.5
"""A lesson whose score is lower is not retrieved: more was measured against it than for it."""
LEAST_SIMILARITY: Final = 0.3
CLAIM_CHARACTERS: Final = 400
OPERATION_CHARACTERS: Final = 200
LATEST: Final = 253_402_214_400
"""Unix time of the last day that a calendar has: of the year 9999."""

_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Evidence(_Record):
    """What one attempt measured. `ratio` is the time of `reference` / the time of `attempt`: above 1 is faster; with
    its 95 % interval. A rejected attempt has a reason instead."""

    run: str = Field(min_length=1, max_length=200)
    attempt: str = Field(pattern=r"^a\d+$", max_length=20)
    reference: str | None = Field(default=None, pattern=r"^a\d+$", max_length=20)
    kind: EffectKind
    ratio: float | None = Field(default=None, gt=0)
    low: float | None = Field(default=None, gt=0)
    high: float | None = Field(default=None, gt=0)
    reason: str | None = Field(default=None, max_length=100)
    """The judge's, as `wrong_result`."""
    at: float = Field(ge=0, lt=LATEST)
    """Unix time."""

    @model_validator(mode="after")
    def _kind_decides_fields(self) -> Evidence:
        measured = (self.reference, self.ratio, self.low, self.high)
        rejected = self.kind == "rejected"
        if rejected != (self.reason is not None) or any((part is None) != rejected for part in measured[1:]):
            raise ValueError("a rejected attempt has a reason; any other has a ratio with its interval")
        if not rejected and self.reference is None:
            raise ValueError("a measured effect names the attempt that it is measured against")
        return self

    def __str__(self) -> str:
        """As `1.31x [1.28, 1.34] (a12 over a7)`."""
        if self.kind == "rejected":
            return f"rejected: {self.reason} ({self.attempt})"
        return f"{self.ratio:.3g}x [{self.low:.3g}, {self.high:.3g}] ({self.attempt} over {self.reference})"


_Words: TypeAlias = Annotated[str, Field(max_length=400)]


class Draft(_Record):
    """A lesson without its number: what is written, exported and imported."""

    claim: str = Field(min_length=1, max_length=CLAIM_CHARACTERS)
    operation: str = Field(min_length=1, max_length=OPERATION_CHARACTERS)
    """The class of operation in a few words, as `row softmax`."""
    says: Says
    target: Literal["cpu", "cuda"]
    chip: str = Field(min_length=1, max_length=200)
    dtypes: tuple[_Words, ...] = Field(default=(), max_length=32)
    shapes: tuple[_Words, ...] = Field(default=(), max_length=32)
    """As `x: float32[4096, 1024]`."""
    bytes: float = Field(gt=0)
    """What the heaviest workload moves at least."""
    evidence: tuple[Evidence, ...] = Field(min_length=1)
    created: float = Field(ge=0, lt=LATEST)
    """Unix time."""
    used: float | None = Field(default=None, ge=0, lt=LATEST)
    """When it was last shown to a planner."""

    @property
    def key(self) -> str:
        """Equal for two lessons that claim the same of the same chip."""
        return f"{self.target}\n{self.chip}\n{' '.join(self.claim.casefold().split())}"

    @property
    def confirmed(self) -> int:
        return sum(SPEAKS_FOR[self.says][evidence.kind] is True for evidence in self.evidence)

    @property
    def contradicted(self) -> int:
        return sum(SPEAKS_FOR[self.says][evidence.kind] is False for evidence in self.evidence)

    @property
    def score(self) -> float:
        """How likely the next measurement confirms it, by Laplace's rule of succession (1814): from 0 to 1."""
        return (self.confirmed + 1) / (self.confirmed + self.contradicted + 2)


class Lesson(Draft):
    """A lesson in the store."""

    id: int


@dataclass(frozen=True)
class Situation:
    """What a task is, for finding the lessons that fit it."""

    target: str
    chip: str
    words: frozenset[str]
    """Of its name, description and reference, as `memory.words.words_of` splits them."""
    dtypes: frozenset[str]
    bytes: float


def similarity(lesson: Draft, situation: Situation) -> float:
    """From 0 (another target) to 1: half is the operation's words, the rest chip, dtypes and scale."""
    if lesson.target != situation.target:
        return 0.0
    asked = set(words_of(lesson.operation))
    said = set(words_of(lesson.claim))
    operation = len(asked & situation.words) / max(1, len(asked))
    claim = len(said & situation.words) / max(1, len(said))
    dtypes = set(lesson.dtypes)
    kinds = len(dtypes & situation.dtypes) / max(1, len(dtypes | situation.dtypes)) if dtypes else 0.5
    scale = math.exp(-abs(math.log2(lesson.bytes / situation.bytes)) / 8)
    return 0.4 * operation + 0.1 * claim + 0.25 * (lesson.chip == situation.chip) + 0.15 * kinds + 0.1 * scale


def choose(lessons: Iterable[Lesson], situation: Situation, limit: int) -> list[Lesson]:
    """Those that fit best and still hold, best first."""
    fitting = [
        (similarity(lesson, situation) * lesson.score, lesson)
        for lesson in lessons
        if lesson.score >= FADED and similarity(lesson, situation) >= LEAST_SIMILARITY
    ]
    return [lesson for _, lesson in sorted(fitting, key=lambda pair: (-pair[0], pair[1].id))[:limit]]


def render(lessons: Iterable[Lesson]) -> str:
    """For a prompt: one line a lesson, with its number, what was measured and where; empty without lessons."""
    lines = [_line(lesson) for lesson in lessons]
    if not lines:
        return ""
    head = (
        "Lessons of earlier runs, each with what was measured then. They are hints, not orders: another shape or chip "
        "may behave differently. A hypothesis names those that it rests on by number, in `lessons`."
    )
    return "\n".join([head, "", *lines])


_IN_WORDS: Final[dict[Says, str]] = {"helps": "helps", "no_gain": "no gain", "fails": "fails"}
_SHOWN: Final = 2
"""Measurements that a line tells."""


def _line(lesson: Lesson) -> str:
    measured = "; ".join(str(evidence) for evidence in lesson.evidence[-_SHOWN:])
    where = ", ".join(filter(None, (lesson.chip, *lesson.dtypes)))
    tally = f"{lesson.confirmed} for, {lesson.contradicted} against"
    kind = f"{_IN_WORDS[lesson.says]}; {plain(lesson.operation)}; {plain(where)}"
    return f"- {lesson.id} ({kind}): {plain(lesson.claim)} — {plain(measured)}; {tally}"


def as_passage(lesson: Lesson) -> Hit:
    """For `search`: all that was measured, cited as `lessons/12`."""
    faded = " (faded)" if lesson.score < FADED else ""
    tally = f"{_IN_WORDS[lesson.says]}{faded}: {lesson.confirmed} for, {lesson.contradicted} against"
    measured = [f"{evidence.run}: {evidence}" for evidence in lesson.evidence]
    where = f"{lesson.operation}; {lesson.chip}; {', '.join(lesson.shapes or lesson.dtypes)}"
    text = "\n".join(plain(line) for line in (lesson.claim, where, tally, *measured))
    return Hit(f"lessons/{lesson.id}", None, None, plain(lesson.operation), text, lesson.score)


def plain(text: str) -> str:
    """`text` on one line and without control characters: within a line that we began it can open no heading, fence or
    list of its own."""
    return _BLANKS.sub(" ", text).strip()
