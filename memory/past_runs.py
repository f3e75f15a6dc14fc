"""What earlier runs tried, kept in an index: for every attempt its change, outcome and diagnosis, not its sources.

A run that ended is read once. One that still goes on is read again when it has more attempts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from memory.files import Json, RunFolderError
from memory.index import Entry, Index
from memory.passages import Document
from memory.runs import Attempt, RunFolder

MOST_RUNS: Final = 2_000
"""Of the newest."""


def refresh(index: Index, runs_root: Path, but: str, seconds: float) -> int:
    """Bring `index` up to date with the runs under `runs_root`, without the one whose id is `but`, for about so many
    seconds; returns how many runs are left for the next call. Runs that have gone vanish; damaged ones have a note."""
    deadline = time.monotonic() + seconds
    known = index.stamps()
    stamps = dict(list(_stamps(runs_root, but))[-MOST_RUNS:])
    gone = known.keys() - stamps.keys()
    if gone:
        index.remove(gone)
    changed = [name for name, stamp in stamps.items() if known.get(name) != stamp]
    for number, name in enumerate(reversed(changed), 1):
        index.put([_entry(runs_root / name, stamps[name])])
        if time.monotonic() > deadline:
            return len(changed) - number
    return 0


def attempt_in_words(run: RunFolder, attempt: Attempt) -> str:
    """What was tried, why, and what came of it, one thing a line."""
    hypothesis = attempt.hypothesis or {}
    diagnosis = run.diagnosis(attempt.id) or {}
    time_taken = "" if attempt.seconds is None else f", {attempt.seconds * 1000:.4g} ms"
    share = "" if attempt.share_of_limit is None else f", {attempt.share_of_limit:.0%} of the limit"
    parent = f" from {attempt.parent}" if attempt.parent else ""
    lines = [
        f"{attempt.id}{parent}: {attempt.outcome}{time_taken}{share}",
        f"build: {attempt.change}",
        *(f"{name}: {hypothesis[name]}" for name in ("change", "idea", "metric", "expected") if hypothesis.get(name)),
        f"why: {attempt.note}" if attempt.note else "",
        *(f"diagnosis, {name}: {_flat(diagnosis[name])}" for name in _OF_DIAGNOSIS if diagnosis.get(name) is not None),
    ]
    return "\n".join(filter(None, lines))


_OF_DIAGNOSIS = ("bottleneck", "evidence", "summary", "hypothesis_held")


def _stamps(runs_root: Path, but: str) -> Iterator[tuple[str, str]]:
    """Each run's name and what changes when it has something new, oldest first."""
    for config in sorted(runs_root.glob("*/config.json")):
        stamp = _stamp(config.parent)
        if stamp is not None and config.parent.name != but:
            yield config.parent.name, stamp


def _stamp(run: Path) -> str | None:
    """Of the run's end, else of its attempts; None when it has gone."""
    for name in ("outcome.json", "attempts", "config.json"):
        try:
            found = (run / name).stat()
        except OSError:
            continue
        return f"{name}:{found.st_size}:{found.st_mtime_ns}"
    return None


def _entry(path: Path, stamp: str) -> Entry:
    try:
        run = RunFolder(path)
        task = _task_in_words(run)
        documents = [
            Document(
                f"{run.id}/attempts/{attempt.id}",
                f"{task}\n{attempt_in_words(run, attempt)}",
                f"{task}: {attempt.id} {attempt.outcome}",
                numbered=False,
            )
            for attempt in run.attempts()
        ]
    except RunFolderError as error:
        return Entry(path.name, stamp, note=error.message)
    return Entry(path.name, stamp, documents)


def _task_in_words(run: RunFolder) -> str:
    """Name, what goes in, and the machine."""
    facts: Json = run.facts() or {}
    task, hardware, workloads = run.config().get("task"), facts.get("hardware"), facts.get("workloads")
    name = task.get("name") if isinstance(task, dict) else None
    model = hardware.get("model") if isinstance(hardware, dict) else None
    first = workloads[0] if isinstance(workloads, list) and workloads else None
    inputs = first.get("inputs") if isinstance(first, dict) else None
    taken = f" ({_flat(inputs)})" if inputs else ""
    return f"{name or run.id}{taken}{f' on {model}' if model else ''}"


def _flat(value: JsonValue) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)
