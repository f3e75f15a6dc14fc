"""Pairs of kernels that were made from the same parent, one of which the judge's measurements call the better.

Which is better is never a matter of two noisy figures: a race between the two, races of both against the same rival
whose intervals lie apart, or times whose intervals lie apart. Right beats wrong. What was not judged
is in no pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from agents import dataset_rows
from agents.dataset_rows import Row
from agents.models.base import Message
from agents.trajectories import Past
from memory.runs import Attempt
from prompts.render import render
from tools.records import Accepted, Kernel, Verdict, weighted_geomean

Because: TypeAlias = Literal["verdict", "race", "races against one rival", "times"]

MOST = 16
"""Pairs of one parent; the widest apart are taken."""
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)


@dataclass(frozen=True)
class Judged:
    """An attempt, its verdict, and whom it raced."""

    attempt: Attempt
    verdict: Verdict
    rival: str | None


@dataclass(frozen=True)
class Pair:
    """`ratio`: the worse one's time / the better one's time; None when the worse one is wrong."""

    better: Attempt
    worse: Attempt
    because: Because
    ratio: float | None


def rows(past: Past, most: int = MOST) -> Iterator[Row]:
    """The run's pairs as lines of a dataset."""
    for pair in pairs(past, most):
        better, worse = past.reward(pair.better.id), past.reward(pair.worse.id)
        yield {
            "prompt": [dataset_rows.said(Message(speaker="user", text=_prompt(past, pair.better.parent or "")))],
            "chosen": [dataset_rows.said(_answer(pair.better))],
            "rejected": [dataset_rows.said(_answer(pair.worse))],
            **dataset_rows.origin(past),
            "parent": pair.better.parent,
            "chosen_attempt": pair.better.id,
            "rejected_attempt": pair.worse.id,
            "because": pair.because,
            "ratio": pair.ratio,
            "chosen_reward_steps": None if better is None else better.steps,
            "chosen_reward_continuous": None if better is None else better.continuous,
            "rejected_reward_steps": None if worse is None else worse.steps,
            "rejected_reward_continuous": None if worse is None else worse.continuous,
        }


def pairs(past: Past, most: int = MOST) -> Iterator[Pair]:
    """At most `most` pairs of each parent."""
    families: dict[str, list[Judged]] = {}
    for judged in _judged(past):
        if judged.attempt.parent in past.attempts:
            families.setdefault(str(judged.attempt.parent), []).append(judged)
    for family in families.values():
        found = [pair for a, b in combinations(family, 2) if (pair := compare(a, b)) is not None]
        found.sort(key=lambda pair: -(pair.ratio or float("inf")))
        yield from found[:most]


def compare(a: Judged, b: Judged) -> Pair | None:
    """The better and the worse of two; None when nothing that was measured says so."""
    if a.attempt.kernel_id == b.attempt.kernel_id:
        return None
    if isinstance(a.verdict, Accepted) and isinstance(b.verdict, Accepted):
        return _faster(a, a.verdict, b, b.verdict)
    right, wrong = (a, b) if isinstance(a.verdict, Accepted) else (b, a)
    if isinstance(right.verdict, Accepted) and wrong.verdict.status == "rejected":
        return Pair(right.attempt, wrong.attempt, "verdict", None)
    return None


def _faster(a: Judged, of_a: Accepted, b: Judged, of_b: Accepted) -> Pair | None:
    for one, other, verdict in ((a, b, of_a), (b, a, of_b)):
        race = verdict.comparison
        if race is not None and one.rival == other.attempt.id:
            if race.decision == "same":
                return None
            return _pair(one, other, race.ratio, "race")
    ratio = of_b.seconds / of_a.seconds
    mine, others = of_a.comparison, of_b.comparison
    if mine is not None and others is not None and a.rival == b.rival:
        if mine.interval.low > others.interval.high or others.interval.low > mine.interval.high:
            return _pair(a, b, mine.ratio / others.ratio, "races against one rival")
        return None
    (low_a, high_a), (low_b, high_b) = _span(of_a), _span(of_b)
    return _pair(a, b, ratio, "times") if high_a < low_b or high_b < low_a else None


def _pair(a: Judged, b: Judged, ratio: float, because: Because) -> Pair:
    """ratio: time of b / time of a."""
    if ratio >= 1:
        return Pair(a.attempt, b.attempt, because, ratio)
    return Pair(b.attempt, a.attempt, because, 1 / ratio)


def _span(verdict: Accepted) -> tuple[float, float]:
    """The least and the most that the time may be."""
    return (
        weighted_geomean([(timing.weight, timing.interval.low) for timing in verdict.timings]),
        weighted_geomean([(timing.weight, timing.interval.high) for timing in verdict.timings]),
    )


def _judged(past: Past) -> Iterator[Judged]:
    """All attempts whose verdict can be read, each with the best by then, whom it was raced against."""
    known: list[Attempt] = []
    for attempt in past.attempts.values():
        try:
            verdict = _VERDICT.validate_python(past.run.verdict(attempt.id))
        except ValidationError:  # of another version
            continue
        finally:
            rival = past.run.best_of(known, attempt.iteration)
            known.append(attempt)
        yield Judged(attempt, verdict, rival)


def _prompt(past: Past, parent: str) -> str:
    """The task and the parent, without what either of the pair knew beside them."""
    attempt = past.attempts[parent]
    kernel = Kernel.model_validate(attempt.kernel)
    task = past.run.config().get("task")
    files = task.get("files") if isinstance(task, dict) else None
    return render(
        "faster.md",
        language={"cpp": "C++", "cuda": "CUDA C++", "torch": "PyTorch"}[kernel.language],
        task=past.task,
        chip=past.chip,
        reference=sorted(files.items()) if isinstance(files, dict) else [],
        header=str(past.facts.get("header", "")).strip(),
        outcome=attempt.outcome,
        note=attempt.note,
        milliseconds=None if attempt.seconds is None else attempt.seconds * 1000,
        kernel=_in_words(kernel),
    )


def _answer(attempt: Attempt) -> Message:
    return Message(speaker="assistant", text=_in_words(Kernel.model_validate(attempt.kernel)))


def _in_words(kernel: Kernel) -> str:
    """Settings, then each file in a fenced block that no line of it closes."""
    settings = [*(f"{name}={value}" for name, value in sorted(kernel.defines.items())), *kernel.flags]
    parts = [f"Settings: {' '.join(settings) or 'none'}"]
    for name, text in sorted(kernel.files.items()):
        fence = "```"
        while fence in text:
            fence += "`"
        parts.append(f"`{name}`:\n\n{fence}{'python' if name.endswith('.py') else 'cpp'}\n{text.strip()}\n{fence}")
    return "\n\n".join(parts)
