"""What a run takes from earlier runs and leaves to later ones.

Lessons for the planner are chosen once, when the run begins, and kept in `lessons.json`, so that its prompts stay the
same byte for byte also when the run is resumed. What speaks for or against a lesson is read out of verdicts, never out
of a model's words.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from agents.attempts import Attempts
from agents.events import Journal
from agents.toolbox import Refused
from memory.files import read_text, write_atomically
from memory.lesson_file import LessonsError
from memory.lesson_store import LessonStore
from memory.lessons import SPEAKS_FOR, Draft, EffectKind, Evidence, Lesson, Says, Situation, render
from memory.runs import Attempt, RunFolder
from memory.words import words_of
from tools.facts import TaskFacts, WorkloadFacts
from tools.records import Accepted, Rejected, WorkloadTiming, weighted_geomean
from tools.task import TaskSource

MOST_SHOWN: Final = 8
"""Lessons in a planner's prompt."""
DRIFT: Final = 1.02
"""Times of two attempts that were not raced against each other must differ by more than this: in between, a machine's
clock and temperature move."""
_MEASURED: Final[dict[str, EffectKind]] = {"faster": "gain", "same": "same", "slower": "loss"}


@dataclass(frozen=True)
class Claim:
    """What an analyst wrote. What it rests on is measured."""

    claim: str
    operation: str
    says: Says


class Lessons:
    """The lessons of one run. Without a store it shows none and refuses to learn."""

    def __init__(
        self,
        store: LessonStore | None,
        run: RunFolder,
        attempts: Attempts,
        journal: Journal,
        *,
        task: TaskSource,
        facts: TaskFacts,
    ) -> None:
        self._store = store
        self._run = run
        self._attempts = attempts
        self._journal = journal
        self._facts = facts
        self.shown = self._recall(situation_of(task, facts))
        """What the planner is told from the first to the last iteration."""

    @property
    def text(self) -> str:
        """`shown` as a section of the planner's prompt; empty without lessons."""
        return render(self.shown)

    def learn(self, claim: Claim, attempts: Sequence[str]) -> Lesson:
        """Write a lesson down. Refused when the attempts don't exist or measured something else than it says."""
        evidence = [self._evidence(attempt) for attempt in attempts]
        against = [each for each in evidence if SPEAKS_FOR[claim.says][each.kind] is not True]
        if against:
            raise Refused(
                f"that it {_IN_WORDS[claim.says]} is not what was measured: {'; '.join(map(str, against))}",
                "Claim what the attempts showed, or name others.",
            )
        return self._keep(lambda store: store.learn(self._draft(claim, evidence)))

    def add_evidence(self, lesson: int, attempts: Sequence[str]) -> Lesson:
        """Count attempts for or against a lesson that is there."""
        evidence = [self._evidence(attempt) for attempt in attempts]
        return self._keep(lambda store: store.add_evidence(lesson, evidence))

    def score_cited(self, new: Sequence[Attempt]) -> None:
        """Count what this iteration measured for or against the lessons that its hypotheses put to the test: of each
        hypothesis its fastest attempt. Doing it twice changes nothing."""
        tested: dict[str, list[Attempt]] = {}
        for attempt in new:
            if self._store is not None and attempt.hypothesis and attempt.hypothesis.get("lessons"):
                tested.setdefault(json.dumps(attempt.hypothesis, sort_keys=True), []).append(attempt)
        for hypothesis, attempts in tested.items():
            judged = [attempt for attempt in attempts if attempt.outcome != "unjudged"]
            if judged:
                best = min(judged, key=lambda attempt: attempt.seconds or float("inf"))
                self._count(json.loads(hypothesis)["lessons"], best)

    def _count(self, lessons: Sequence[int], attempt: Attempt) -> None:
        for lesson in lessons:
            try:
                self.add_evidence(lesson, [attempt.id])
            except Refused as error:
                self._journal.tell("lessons_failed", message=str(error))

    def _recall(self, situation: Situation) -> tuple[Lesson, ...]:
        path = self._run.path / "lessons.json"
        if path.exists():
            return _read(read_text(path))
        if self._store is None:
            return ()
        try:
            chosen = self._store.relevant(situation, MOST_SHOWN)
        except LessonsError as error:
            self._journal.tell("lessons_failed", message=str(error))
            return ()
        try:
            self._store.mark_used([lesson.id for lesson in chosen], time.time())
        except LessonsError as error:  # it may only be read
            self._journal.tell("lessons_failed", message=str(error))
        write_atomically(
            path, json.dumps([lesson.model_dump(mode="json") for lesson in chosen], indent=1) + "\n", durable=True
        )
        return tuple(chosen)

    def _keep(self, change: Callable[[LessonStore], Lesson]) -> Lesson:
        if self._store is None:
            raise Refused("this run keeps no lessons", "Put it into your diagnosis.")
        try:
            lesson = change(self._store)
        except LessonsError as error:
            raise Refused(error.message, error.advice) from error
        self._journal.tell(
            "lesson",
            lesson=lesson.id,
            claim=lesson.claim,
            says=lesson.says,
            confirmed=lesson.confirmed,
            contradicted=lesson.contradicted,
        )
        return lesson

    def _draft(self, claim: Claim, evidence: Sequence[Evidence]) -> Draft:
        heaviest = max(self._facts.workloads, key=lambda workload: workload.bytes)
        try:
            return Draft(
                claim=claim.claim.strip(),
                operation=claim.operation.strip(),
                says=claim.says,
                target=self._facts.target,
                chip=chip_of(self._facts),
                dtypes=tuple(sorted(_dtypes([heaviest]))),
                shapes=heaviest.inputs[:32],
                bytes=max(1.0, heaviest.bytes),
                evidence=tuple(evidence),
                created=time.time(),
            )
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            raise Refused(f"{problem['loc'][0]}: {problem['msg']}", "Say it in fewer words.") from error

    def _evidence(self, attempt_id: str) -> Evidence:
        """What the judge measured of an attempt against the one it came from. Refused when it measured nothing."""
        attempt = self._attempts.find(attempt_id)
        verdict = self._attempts.verdict(attempt_id)
        if isinstance(verdict, Rejected):
            return Evidence(
                run=self._run.id, attempt=attempt_id, kind="rejected", reason=verdict.reason, at=attempt.judged_at
            )
        reference = self._reference(attempt)
        if not isinstance(verdict, Accepted) or reference is None:
            raise Refused(f"nothing was measured of {attempt_id} against another attempt", "Name another attempt.")
        before = self._attempts.verdict(reference.id)
        if verdict.comparison is not None and self._raced_against(attempt) == reference.id:
            race = verdict.comparison
            ratio, low, high = race.ratio, race.interval.low, race.interval.high
            kind = _MEASURED[race.decision]
        elif isinstance(before, Accepted):
            ratio, low, high = _between(before.timings, verdict.timings)
            kind = "gain" if low > DRIFT else "loss" if high < 1 / DRIFT else "same"
        else:
            raise Refused(f"{attempt_id} and {reference.id} can't be compared", "Name another attempt.")
        return Evidence(
            run=self._run.id,
            attempt=attempt_id,
            reference=reference.id,
            kind=kind,
            ratio=ratio,
            low=low,
            high=high,
            at=attempt.judged_at,
        )

    def _reference(self, attempt: Attempt) -> Attempt | None:
        """What its hypothesis started from, or its parent; of one that was not accepted, the accepted one before it."""
        named = (attempt.hypothesis or {}).get("parent") or attempt.parent
        while named is not None:
            found = self._attempts.find(str(named))
            if found.seconds is not None:
                return found
            named = found.parent
        return None

    def _raced_against(self, attempt: Attempt) -> str | None:
        """The best attempt when this one was judged."""
        earlier = self._attempts.first(int(attempt.id[1:]))
        return next((each.id for each in reversed(earlier) if each.outcome == "kept"), None)


def situation_of(task: TaskSource, facts: TaskFacts) -> Situation:
    """What the task is, in what can be compared with a lesson."""
    words = " ".join((task.name, task.description, task.files[task.entry]))
    return Situation(
        target=facts.target,
        chip=chip_of(facts),
        words=frozenset(words_of(words)),
        dtypes=frozenset(_dtypes(facts.workloads)),
        bytes=max(1.0, *(workload.bytes for workload in facts.workloads)),
    )


def chip_of(facts: TaskFacts) -> str:
    """The processor's or the GPU's name."""
    return str(facts.hardware.get("model") or f"an unknown {facts.target} device")[:200]


def _dtypes(workloads: Sequence[WorkloadFacts]) -> set[str]:
    described = " ".join(text for workload in workloads for text in (*workload.inputs, *workload.outputs))
    return set(re.findall(r": (\w+)\[", described))


def _between(before: Sequence[WorkloadTiming], after: Sequence[WorkloadTiming]) -> tuple[float, float, float]:
    """Earlier time / later time with its bounds, from the two intervals of every workload: wider than a race's."""
    earlier = {timing.workload: timing for timing in before}
    pairs = [(timing.weight, earlier[timing.workload], timing) for timing in after]
    return (
        weighted_geomean([(weight, old.seconds / new.seconds) for weight, old, new in pairs]),
        weighted_geomean([(weight, old.interval.low / new.interval.high) for weight, old, new in pairs]),
        weighted_geomean([(weight, old.interval.high / new.interval.low) for weight, old, new in pairs]),
    )


def _read(text: str) -> tuple[Lesson, ...]:
    return tuple(Lesson.model_validate(item) for item in json.loads(text))


_IN_WORDS: Final[dict[Says, str]] = {"helps": "helps", "no_gain": "gives no gain", "fails": "fails"}
