"""Writes trajectories of many runs as data sets: streamed, filtered, without private parts, whole or not at all.

One turn is in memory at a time, and a digest of every line that was written (to know the same content again). The
folder appears under its name only when everything is in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, TypeAlias

from pydantic import JsonValue

from agents import dataset_rows, preferences
from agents.dataset_rows import Row
from agents.dataset_schema import COLUMNS, Kind, misfit
from agents.privacy import Privacy
from agents.rewards import Scale
from agents.trajectories import SUMMARY, Past, Turn, turns
from memory.files import RunFolderError, write_failure
from memory.runs import RunFolder
from tools.errors import WarpsmithError

ROLES = ("planner", "coder", "analyst", SUMMARY)
_ORIGIN = frozenset({"run", "turn", "iteration", "episode", "parent", "chosen_attempt", "rejected_attempt"})
"""Columns that say where a line comes from: two lines that differ only in these have the same content."""
CardOf: TypeAlias = "Callable[[Counted, Wanted], str]"


@dataclass(frozen=True)
class Wanted:
    """What to write, and what to leave out."""

    kinds: tuple[Kind, ...] = ("sft",)
    accepted_only: bool = False
    """Only turns with an attempt that the judge accepted."""
    min_speedup: float | None = None
    """Over the baseline, of a turn's best attempt or of the better one of a pair."""
    roles: tuple[str, ...] = ()
    """All when empty."""
    models: tuple[str, ...] = ()
    """Patterns as `openai:*`; a turn counts when one of its calls fits. All when empty."""
    not_models: tuple[str, ...] = ()
    scale: Scale = "continuous"
    """Of the column `reward` of episodes."""
    pairs: int = preferences.MOST
    """At most, of one parent."""
    keep_duplicates: bool = False


@dataclass
class Counted:
    """What was written and what was left out, and why."""

    lines: Counter[Kind] = field(default_factory=Counter)
    size: Counter[Kind] = field(default_factory=Counter)
    """Bytes."""
    left_out: Counter[str] = field(default_factory=Counter)
    """By the reason, in words."""
    runs: set[str] = field(default_factory=set)
    tasks: Counter[str] = field(default_factory=Counter)
    chips: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    """Lines by the reward's step."""
    damaged: Counter[str] = field(default_factory=Counter)
    """Transcripts, or all the rest of a run, that could not be read, by run."""

    def count(self, kind: Kind, row: Row) -> None:
        self.lines[kind] += 1
        self.runs.add(str(row["run"]))
        for counter, name in ((self.tasks, "task"), (self.chips, "chip"), (self.models, "model"), (self.roles, "role")):
            counter[str(row.get(name) or "unknown")] += name in row
        step = row.get("reward_steps", row.get("chosen_reward_steps"))
        self.steps["none" if step is None else str(step)] += 1


def export(
    runs: Iterable[RunFolder], folder: Path, wanted: Wanted, privacy: Privacy, card: CardOf, *, force: bool = False
) -> Counted:
    """Write the data set into `folder`: a JSON-lines file a kind, and README.md as `card` words it.

    Raises WarpsmithError when `folder` is there and not to be replaced, RunFolderError when it can't be written;
    `folder` is then as it was.
    """
    if folder.exists() and not force:
        raise WarpsmithError(f"{folder} is there already", "Name another folder, or pass --force to replace it.")
    if folder.exists() and not _is_data_set(folder):
        raise WarpsmithError(f"{folder} is no data set of ours", "Only a data set is replaced; name another folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise write_failure(folder, error) from error
    try:
        counted = _fill(draft, runs, wanted, privacy)
        (draft / "README.md").write_text(card(counted, wanted), encoding="utf-8")
        draft.chmod(0o755)
        _swap(draft, folder)
    except OSError as error:
        raise write_failure(folder, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return counted


def _fill(draft: Path, runs: Iterable[RunFolder], wanted: Wanted, privacy: Privacy) -> Counted:
    counted = Counted(lines=Counter(dict.fromkeys(wanted.kinds, 0)))
    with ExitStack() as stack:
        files = {kind: stack.enter_context((draft / f"{kind}.jsonl").open("wb")) for kind in wanted.kinds}
        lines = _Lines(files, privacy, counted, wanted.keep_duplicates)
        for run in runs:
            try:
                for kind, row in _rows(Past(run), wanted, counted):
                    lines.add(kind, row)
            except RunFolderError:
                counted.damaged[run.id] += 1
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    return counted


@dataclass
class _Lines:
    """The files that are being written."""

    files: Mapping[Kind, BinaryIO]
    privacy: Privacy
    counted: Counted
    keep_duplicates: bool
    seen: set[bytes] = field(default_factory=set)

    def add(self, kind: Kind, row: Row) -> None:
        clean: Row = {name: self.privacy.json(value) for name, value in row.items()}
        wrong = misfit(clean, COLUMNS[kind], kind)
        assert wrong is None, wrong
        key = _content(kind, clean)
        if key in self.seen and not self.keep_duplicates:
            self.counted.left_out["the same content again"] += 1
            return
        self.seen.add(key)
        self.counted.size[kind] += self.files[kind].write(json.dumps(clean, ensure_ascii=False).encode() + b"\n")
        self.counted.count(kind, clean)


def _rows(past: Past, wanted: Wanted, counted: Counted) -> Iterator[tuple[Kind, Row]]:
    by_turn = [kind for kind in wanted.kinds if kind != "preference"]
    for turn in turns(past, counted.damaged) if by_turn else ():
        why = _why_not(past, turn, wanted)
        for kind in by_turn:
            reason = why or ("a kernel that could not be judged" if kind == "rl" and _is_blind(past, turn) else None)
            if reason is not None:
                counted.left_out[reason] += 1
                continue
            rows = {"sft": dataset_rows.sft, "trajectory": dataset_rows.trajectory}.get(kind)
            for row in dataset_rows.rl(past, turn, wanted.scale) if rows is None else rows(past, turn):
                yield kind, row
    if "preference" in wanted.kinds:
        for row in preferences.rows(past, wanted.pairs):
            speedup = past.attempts[str(row["chosen_attempt"])].speedup
            if wanted.min_speedup is not None and (speedup or 0.0) < wanted.min_speedup:
                counted.left_out["too small a speedup"] += 1
            else:
                yield "preference", row


def _why_not(past: Past, turn: Turn, wanted: Wanted) -> str | None:
    """Why a turn is not wanted, in words."""
    speedup = dataset_rows.best_speedup(past, turn.attempts)
    models = {call.model for call in turn.calls}
    checks = (
        (bool(wanted.roles) and turn.role not in wanted.roles, "another role"),
        (bool(wanted.models) and not _fits(models, wanted.models), "another model"),
        (_fits(models, wanted.not_models), "another model"),
        (wanted.accepted_only and speedup is None, "no accepted kernel"),
        (wanted.min_speedup is not None and (speedup or 0.0) < wanted.min_speedup, "too small a speedup"),
    )
    return next((reason for holds, reason in checks if holds), None)


def _is_blind(past: Past, turn: Turn) -> bool:
    """The machinery failed on a kernel of the turn: no reward of it would be true, not even 0."""
    return past.unjudged(turn.attempts)


def _fits(models: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(model, pattern) for model in models for pattern in patterns)


def _content(kind: Kind, row: Row) -> bytes:
    said: JsonValue = {name: value for name, value in row.items() if name not in _ORIGIN}
    if kind == "rl":  # a step is the same only in the same episode: what it means depends on those before it
        said = [row["episode"], row["step"]]
    text = json.dumps([kind, said], sort_keys=True)
    return hashlib.sha256(text.encode()).digest()[:16]


def _is_data_set(folder: Path) -> bool:
    """Nothing in it that an export did not put there, as far as names tell."""
    ours = {"README.md", *(f"{kind}.jsonl" for kind in COLUMNS)}
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= ours


def _swap(draft: Path, folder: Path) -> None:
    """`draft` takes the name `folder`; what had it before is gone."""
    old = draft.with_name(f"{draft.name}.old")
    if folder.exists():
        folder.rename(old)
    try:
        draft.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
