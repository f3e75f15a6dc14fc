"""How a run got to its best kernel: the attempts from the start to it, what each was meant to do, and what it did."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.reflection import Score, is_of_time, score
from memory.files import Json, RunFolderError
from memory.ledger import settings_of
from memory.movement import Movement, Race, movement, race_in
from memory.runs import Attempt, RunFolder
from tools.errors import KernelError
from tools.records import Kernel
from tools.tunables import parse_tunables, written_value

STEPS_CHARACTERS = 400_000
"""Of the diffs of all steps together, so that a long run's report stays small."""
LEAST_CHARACTERS = 4_000
"""Of one step's diff."""


class DiffLine(BaseModel):
    """A line of a unified diff and how to colour it."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["added", "removed", "place", "same"]
    text: str


class Diff(BaseModel):
    """A diff, cut off where it is too long."""

    model_config = ConfigDict(frozen=True)

    lines: tuple[DiffLine, ...]
    left_out: int = 0
    """Lines that are not here."""

    @property
    def added(self) -> int:
        return sum(line.kind == "added" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "removed" for line in self.lines)


class Setting(BaseModel):
    """A build setting in force."""

    model_config = ConfigDict(frozen=True)

    name: str
    value: str
    before: str | None
    """The start's; None where it has none of that name."""
    written: str | None = None
    """The value that the kernel's text has, where the build sets another one over it."""


class Step(BaseModel):
    """One attempt on the way. Times are seconds."""

    model_config = ConfigDict(frozen=True)

    attempt: Attempt
    built: str
    """What was built: edits and settings."""
    idea: str
    """What was meant, in its author's words; empty where that is what was built."""
    parent: str
    score: Score | None
    """What its hypothesis came to; None where that was not scored."""
    moved: Movement | None
    """How its time moved from the parent's."""
    over_start: Movement | None
    """How its time moved from that of the first on the way."""
    raced: Race | None
    """The judge's race against the best by then, where that was not the parent."""
    settings: tuple[str, ...]
    """How the build settings differ from the parent's, one phrase each."""
    diff: Diff
    diagnosis: str
    """The analyst's reading of it, empty where there is none."""


def scores_of(run: RunFolder, attempts: Sequence[Attempt]) -> dict[str, Score]:
    """What the hypothesis of each attempt came to. Times are held to the races, also in runs that wrote down something
    else; other metrics are as they were written down once the iteration was over, else as they were measured since."""
    written, known = run.scores(), {attempt.id: attempt for attempt in attempts}
    return {
        attempt.id: _score_of(run, attempt, known, written.get(attempt.id))
        for attempt in attempts
        if attempt.hypothesis is not None
    }


def _score_of(run: RunFolder, attempt: Attempt, known: Mapping[str, Attempt], written: Json | None) -> Score:
    parent = known.get(attempt.parent or "")
    if is_of_time(str((attempt.hypothesis or {}).get("metric", ""))):
        return score(attempt, parent, None, None, known)
    try:
        return Score.model_validate(written)
    except ValidationError:
        of_parent = run.profile(parent.id) if parent is not None else None
        return score(attempt, parent, run.profile(attempt.id), of_parent, known)


def built_of(attempt: Attempt) -> str:
    """What was built: edits and all build settings."""
    if attempt.iteration == 0 and attempt.parent is None:
        return "the starting kernel"
    return attempt.change or "no change"


def meant_by(attempt: Attempt) -> str:
    """What was meant, in its author's words, to stand beside what was built; empty where that says the same."""
    said = idea_of(attempt)
    if said in (built_of(attempt), settings_of(attempt.change)):
        return ""
    return said if attempt.person is not None else f"meant: {said}"


def idea_of(attempt: Attempt) -> str:
    """What was changed, in its author's words: the hypothesis's, a person's own, else the edits."""
    if attempt.person is not None:
        return f"by hand: {attempt.person or attempt.change}"
    said = (attempt.hypothesis or {}).get("change")
    return str(said or attempt.change or ("the starting kernel" if attempt.iteration == 0 else "no change"))


def way_to(best: str | None, attempts: Sequence[Attempt]) -> list[Attempt]:
    """The attempts from the first to `best`, parent by parent; empty without a best."""
    known = {attempt.id: attempt for attempt in attempts}
    way: list[Attempt] = []
    at = known.get(best or "")
    while at is not None and at not in way:
        way.append(at)
        at = known.get(at.parent or "")
    return way[::-1]


def steps(
    run: RunFolder, way: Sequence[Attempt], scores: Mapping[str, Score], attempts: Sequence[Attempt]
) -> list[Step]:
    """The changes on the way, first to last. attempts: all of the run."""
    room = max(LEAST_CHARACTERS, STEPS_CHARACTERS // max(1, len(way)))
    known = {attempt.id: attempt for attempt in attempts}
    found = []
    for parent, attempt in itertools.pairwise(way):
        race = race_in(attempt.note)
        found.append(
            Step(
                attempt=attempt,
                built=built_of(attempt),
                idea=meant_by(attempt),
                parent=parent.id,
                score=scores.get(attempt.id),
                moved=movement(attempt, parent, known),
                over_start=movement(attempt, way[0], known) if parent is not way[0] else None,
                raced=race if race is not None and race.against != parent.id else None,
                settings=tuple(setting_changes(parent, attempt)),
                diff=shortened(source_diff(parent, attempt, (parent.id, attempt.id)), room),
                diagnosis=diagnosis_of(run, attempt.id),
            )
        )
    return found


def setting_changes(start: Attempt | None, winner: Attempt | None) -> list[str]:
    """How the winner's build settings differ from the start's, one phrase each."""
    if start is None or winner is None:
        return []
    before, after = Kernel.model_validate(start.kernel), Kernel.model_validate(winner.kernel)
    old, new = _tunables(before), _tunables(after)
    changes = [
        f"{name}: {old.get(name, 'unset')} → {new.get(name, 'unset')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if before.flags != after.flags:
        changes.append(f"flags: {' '.join(before.flags) or 'default'} → {' '.join(after.flags) or 'default'}")
    return changes


def settings_in_force(start: Attempt | None, winner: Attempt | None) -> list[Setting]:
    """All tunables and the flags that the winner was built with."""
    if winner is None:
        return []
    after = Kernel.model_validate(winner.kernel)
    before = None if start is None else Kernel.model_validate(start.kernel)
    old, new = {} if before is None else _tunables(before), _tunables(after)
    found = [
        Setting(name=name, value=value, before=old.get(name), written=_overridden(name, value, after))
        for name, value in sorted(new.items())
    ]
    flags = [] if before is None else [" ".join(before.flags) or "default"]
    return [*found, Setting(name="flags", value=" ".join(after.flags) or "default", before=next(iter(flags), None))]


def _overridden(name: str, value: str, kernel: Kernel) -> str | None:
    written = written_value(name, kernel.files) if name in kernel.defines else None
    return written if written != value else None


def source_diff(
    start: Attempt | None, winner: Attempt | None, names: tuple[str, str] = ("start", "best")
) -> list[DiffLine]:
    """Unified diff of all files, start against winner, under these `names`."""
    if start is None or winner is None:
        return []
    before, after = Kernel.model_validate(start.kernel).files, Kernel.model_validate(winner.kernel).files
    lines: list[DiffLine] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "").splitlines(), after.get(name, "").splitlines()
        for text in difflib.unified_diff(old, new, f"{names[0]}/{name}", f"{names[1]}/{name}", lineterm=""):
            lines.append(DiffLine(kind=_diff_kind(text), text=text))
    return lines


def shortened(lines: Sequence[DiffLine], characters: int) -> Diff:
    """As many whole lines as fit."""
    used = 0
    for place, line in enumerate(lines):
        used += len(line.text) + 40  # what a line costs as HTML
        if used > characters:
            return Diff(lines=tuple(lines[:place]), left_out=len(lines) - place)
    return Diff(lines=tuple(lines))


def diagnosis_of(run: RunFolder, attempt: str) -> str:
    """What the analyst said of it; empty where it said nothing, or where that can't be read."""
    try:
        told = run.diagnosis(attempt) or {}
    except RunFolderError:
        return ""
    summary = told.get("summary")
    return summary if isinstance(summary, str) else ""


def _tunables(kernel: Kernel) -> dict[str, str]:
    """The value in force of every tunable: what was set, else the source's own default."""
    try:
        declared = parse_tunables(kernel.files)
    except KernelError:
        declared = {}
    return {name: values[0] for name, values in declared.items()} | kernel.defines


def _diff_kind(line: str) -> Literal["added", "removed", "place", "same"]:
    if line.startswith(("+++", "---", "@@")):
        return "place"
    return "added" if line.startswith("+") else "removed" if line.startswith("-") else "same"
