"""Runs side by side, for people who swap models: what each came to, by what way, at what price.

Runs are grouped by task, since only runs of one task on one machine can be held against each other; what else differs
is said. Not covered: whether a difference between two runs is more than chance. Two runs of one model differ too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from agents.models.costs import LedgerRow, ledger_of
from app.claim import Claim
from app.compare_hand import ByHand, by_hand_in
from app.compare_time import WorkTime
from app.played import models_of, short_models
from app.report import baseline_name
from app.summary import refuted, summarize
from memory.files import Json
from memory.runs import Attempt, RunFolder
from tools.records import Interval, weighted_geomean

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST = len(LETTERS)
"""Runs in one comparison."""


class Moment(BaseModel):
    """When an attempt was judged, and the best by then."""

    model_config = ConfigDict(frozen=True)

    attempt: int
    """How many attempts there were by then, this one included."""
    elapsed: float
    """Seconds at work by then."""
    speedup: float
    """Of the best by then: baseline's time / its time."""


class Contender(BaseModel):
    """One run. Times are seconds; what is not known is None."""

    model_config = ConfigDict(frozen=True)

    letter: str
    run: str
    path: str
    task: str
    models: dict[str, str]
    """Role to model, as it was asked for."""
    target: str
    chip: str
    baseline: str
    state: str
    """Why it ended, in words; else that it has not."""
    best: str | None = None
    start_seconds: float | None = None
    best_seconds: float | None = None
    claim: Claim | None = None
    gain: float | None = None
    gain_interval: Interval | None = None
    speedup: float | None = None
    share_of_limit: float | None = None
    attempts: int = 0
    kept: int = 0
    accepted: int = 0
    failed: int = 0
    """Attempts that were rejected or could not be judged."""
    rejections: dict[str, int] = {}
    iterations: int | None = None
    dollars: float | None = 0.0
    unpriced_tokens: int = 0
    tokens: int = 0
    calls: int = 0
    failed_calls: int = 0
    corrections: int = 0
    elapsed: float = 0.0
    """At work, over all resumptions."""
    device_seconds: float = 0.0
    best_after_seconds: float | None = None
    """At work until the best was judged; the three below too."""
    best_after_attempts: int | None = None
    best_after_tokens: int | None = None
    best_after_dollars: float | None = None
    best_after_unpriced_tokens: int = 0
    curve: tuple[Moment, ...] = ()
    by_hand: ByHand = ByHand()
    """What of it a person wrote."""

    @property
    def hand(self) -> str:
        """Whether its best is a person's, in words; empty where it is the models'."""
        return self.by_hand.words(self.best)

    @property
    def model(self) -> str:
        """The models in a word: one for all roles, or each role's."""
        return short_models(self.models)

    @property
    def counted_gain(self) -> float | None:
        """What it adds to a mean of gains: 1 where none could be confirmed."""
        return 1.0 if self.gain is None and self.claim is not None and self.claim.ratio is not None else self.gain

    @property
    def failure_share(self) -> float | None:
        return self.failed / self.attempts if self.attempts else None


class ModelTally(BaseModel):
    """All runs with the same models. A person's kernels are no attempts of theirs, and a best that is one, or grew from
    one, no gain of theirs; what the runs cost is counted whole."""

    model_config = ConfigDict(frozen=True)

    model: str
    runs: int
    solved: int
    """Runs with an accepted kernel."""
    by_hand: int
    """Runs whose best is a person's, or grew from a person's: they are in neither of the two means below."""
    speedup: float | None
    """Geometric mean over the other runs with an accepted kernel, of the baseline's time / the best's time."""
    gain: float | None
    """The same of the starting kernel's time; a run whose gain its last race did not confirm counts as 1."""
    attempts: int
    failed: int
    tokens: int
    dollars: float | None
    """None when no price is known; lacks the unpriced tokens."""
    unpriced_tokens: int
    elapsed: float


class Group(BaseModel):
    """Runs of one task."""

    model_config = ConfigDict(frozen=True)

    task: str
    runs: tuple[Contender, ...]
    differs: tuple[str, ...]
    """What else is not the same in all of them, in sentences."""

    @property
    def winner(self) -> str | None:
        """The letter of the fastest."""
        timed = [run for run in self.runs if run.best_seconds is not None]
        return min(timed, key=lambda run: run.best_seconds or 0.0).letter if len(timed) > 1 else None


class Comparison(BaseModel):
    """Everything that is compared."""

    model_config = ConfigDict(frozen=True)

    groups: tuple[Group, ...]
    models: tuple[ModelTally, ...]


def compare(runs: Sequence[RunFolder]) -> Comparison:
    """Read the runs, ended or not. Raises RunFolderError when one can't be read."""
    contenders = [contender(run, LETTERS[place % MOST]) for place, run in enumerate(runs)]
    tasks: dict[str, list[Contender]] = {}
    for each in contenders:
        tasks.setdefault(each.task, []).append(each)
    return Comparison(
        groups=tuple(Group(task=task, runs=tuple(found), differs=_differs(found)) for task, found in tasks.items()),
        models=tuple(_tallies(contenders)),
    )


def contender(run: RunFolder, letter: str = "A") -> Contender:
    """One run in the figures that are compared."""
    summary, attempts, events = summarize(run), run.attempts(), run.events()
    total, at_work = summary.spending.total, WorkTime(events)
    reached = _reached(events, attempts, summary.best, at_work)
    facts = run.facts() or {}
    hardware = facts.get("hardware")
    return Contender(
        letter=letter,
        run=run.id,
        path=str(run.path),
        task=summary.task,
        models=models_of(run.config(), events),
        target=str(facts.get("target", "unknown")),
        chip=_chip(hardware if isinstance(hardware, dict) else {}),
        baseline=baseline_name(run),
        state=summary.reason_words or "has not ended",
        attempts=summary.attempts,
        kept=summary.counts.get("kept", 0),
        accepted=summary.accepted,
        failed=summary.counts.get("rejected", 0) + summary.counts.get("unjudged", 0),
        rejections=summary.rejections,
        iterations=summary.iterations if summary.iterations is not None else _iterations(attempts),
        dollars=total.dollars,
        unpriced_tokens=total.unpriced_tokens,
        tokens=total.tokens,
        calls=total.calls,
        failed_calls=total.failed,
        corrections=total.corrections,
        elapsed=summary.elapsed if summary.elapsed is not None else at_work.total,
        device_seconds=sum(attempt.device_seconds for attempt in attempts),
        by_hand=by_hand_in(attempts, summary.best),
        curve=tuple(_curve(attempts, refuted(run, attempts), at_work)),
        **{name: getattr(summary, name) for name in _OF_BEST},
        **reached,
    )


_OF_BEST = ("best", "start_seconds", "best_seconds", "claim", "gain", "gain_interval", "speedup", "share_of_limit")


def _reached(
    events: Sequence[Json], attempts: Sequence[Attempt], best: str | None, at_work: WorkTime
) -> dict[str, object]:
    """What it took until the best was judged."""
    place = next((place for place, attempt in enumerate(attempts) if attempt.id == best), None)
    if place is None:
        return {}
    found = attempts[place]
    paid = [row for row in ledger_of(events) if row.iteration <= found.iteration]
    tokens, unpriced = sum(_tokens(row) for row in paid), sum(row.unpriced_tokens for row in paid)
    return {
        "best_after_seconds": at_work.at(found.judged_at),
        "best_after_attempts": place + 1,
        "best_after_tokens": tokens,
        "best_after_unpriced_tokens": unpriced,
        "best_after_dollars": None if tokens and unpriced == tokens else sum(row.dollars or 0.0 for row in paid),
    }


def _tokens(row: LedgerRow) -> int:
    return row.input_tokens + row.output_tokens


def _curve(attempts: Sequence[Attempt], refuted: frozenset[str], at_work: WorkTime) -> Iterable[Moment]:
    best: float | None = None
    for count, attempt in enumerate(attempts, start=1):
        if attempt.outcome == "kept" and attempt.speedup is not None and attempt.id not in refuted:
            best = attempt.speedup
        if best is not None:
            yield Moment(attempt=count, elapsed=at_work.at(attempt.judged_at) or 0.0, speedup=best)


def _tallies(contenders: Sequence[Contender]) -> Iterable[ModelTally]:
    """The fastest models first."""
    by_model: dict[str, list[Contender]] = {}
    for each in contenders:
        by_model.setdefault(each.model, []).append(each)
    tallies = [_tally(model, found) for model, found in by_model.items()]
    return sorted(tallies, key=lambda tally: -(tally.speedup or 0.0))


def _tally(model: str, found: Sequence[Contender]) -> ModelTally:
    priced = [run.dollars for run in found if run.dollars is not None]
    own = [run for run in found if run.by_hand.best is None]
    return ModelTally(
        model=model,
        runs=len(found),
        solved=sum(run.best is not None and run.accepted > run.by_hand.accepted for run in found),
        by_hand=len(found) - len(own),
        speedup=_geomean(run.speedup for run in own),
        gain=_geomean(run.counted_gain for run in own),
        attempts=sum(run.attempts - run.by_hand.attempts for run in found),
        failed=sum(run.failed - run.by_hand.failed for run in found),
        tokens=sum(run.tokens for run in found),
        dollars=sum(priced) if priced else None,
        unpriced_tokens=sum(run.unpriced_tokens for run in found),
        elapsed=sum(run.elapsed for run in found),
    )


def _differs(runs: Sequence[Contender]) -> tuple[str, ...]:
    found = []
    for name, words in (("target", "targets"), ("chip", "machines")):
        values = list(dict.fromkeys(getattr(run, name) for run in runs))
        if len(values) > 1:
            found.append(f"These runs are from different {words} ({', '.join(values)}): their times can't be compared.")
    return tuple(found)


def _chip(hardware: Json) -> str:
    return next((str(hardware[name]) for name in ("name", "model", "gpu") if hardware.get(name)), "unknown")


def _iterations(attempts: Sequence[Attempt]) -> int | None:
    return max((attempt.iteration for attempt in attempts), default=None)


def _geomean(values: Iterable[float | None]) -> float | None:
    known = [(1.0, value) for value in values if value]
    return weighted_geomean(known) if known else None
