"""Which runs and batches there are, and how each stands: read from little of each folder, so that many list at once.

A folder that is damaged is listed with what is wrong with it. Names come from the file system and may be anything: one
is only followed when it is a plain name of a folder that is there.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.batch_queue import BATCH_NAME, QUEUE_NAME, BatchFolder
from agents.last_measurement import LastMeasurement, told_of
from agents.limits import STOP_WORDS
from app.claim import claim_of, start_of
from app.end_words import end_words
from app.played import models_of, short_models
from app.serve.problems import NotThere
from app.serve.waiting import waits_for
from app.summary import task_name
from memory.files import Json, RunFolderError, open_plain
from memory.runs import Attempt, RunFolder
from memory.tail import event_in, is_held

State: TypeAlias = Literal["live", "stopped", "ended", "damaged"]
"""`live`: a process works on it. `stopped`: none does, and it has not ended."""
_TAIL: Final = 1 << 16
"""Bytes at the end of a run's events that tell how it stands."""
_looking = threading.Lock()
"""Two threads that look at one lock at once would see each other."""


class RunGlance(BaseModel):
    """A run in a line. Times are seconds; what is not known is None."""

    model_config = ConfigDict(frozen=True)

    name: str
    href: str
    """Where its page is; empty for a name that no address can hold."""
    state: State
    words: str = ""
    """Why it ended, what it waits for, or what is wrong with it."""
    task: str = ""
    models: str = ""
    best: str | None = None
    seconds: float | None = None
    claim: str = ""
    """What it may claim against its start, in a word or two."""
    speedup: float | None = None
    share_of_limit: float | None = None
    attempts: int = 0
    iteration: int | None = None
    iterations: int | None = None
    elapsed: float | None = None


class BatchGlance(BaseModel):
    """A batch in a line."""

    model_config = ConfigDict(frozen=True)

    name: str
    href: str
    state: State
    words: str = ""
    tasks: int = 0
    over: int = 0


class Catalog:
    """The runs under `root`. Glances are kept until the folder changes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._runs: dict[Path, tuple[object, RunGlance]] = {}

    def runs(self) -> list[RunGlance]:
        """Newest first by name, which begins with the time."""
        return [self.glance(path, run_href(path.name)) for path in _folders(self.root, "config.json")]

    def batches(self) -> list[BatchGlance]:
        """Newest first."""
        return [self._batch(path) for path in _folders(self.root, BATCH_NAME)]

    def run(self, name: str, batch: str | None = None) -> RunFolder:
        """A run by its folder's name, in a batch if one is named. Raises NotThere."""
        root = self.root if batch is None else self.batch(batch).runs
        path = _inside(root, name)
        if path is None or not (path / "config.json").is_file():
            raise NotThere(f"run {name}")
        return RunFolder(path)

    def batch(self, name: str) -> BatchFolder:
        """A batch by its folder's name. Raises NotThere."""
        path = _inside(self.root, name)
        if path is None or not (path / BATCH_NAME).is_file():
            raise NotThere(f"batch {name}")
        return BatchFolder(path)

    def glance(self, path: Path, href: str) -> RunGlance:
        """How one run stands."""
        mark = (_signature(path), state_of(path))
        known = self._runs.get(path)
        if known is None or known[0] != mark:
            known = self._runs[path] = (mark, _glance(path, href, mark[1]))
        return known[1]

    def _batch(self, path: Path) -> BatchGlance:
        name, href = shown(path.name), batch_href(path.name)
        try:
            states = BatchFolder(path).board().tasks.values()
        except (RunFolderError, OSError) as error:
            return BatchGlance(name=name, href=href, state="damaged", words=getattr(error, "message", str(error)))
        over = sum(not state.open for state in states)
        live = any(state_of(run) == "live" for run in _folders(path / "runs", "config.json"))
        state: State = "live" if live else "ended" if over == len(states) else "stopped"
        return BatchGlance(name=name, href=href, state=state, tasks=len(states), over=over)


def state_of(path: Path) -> State:
    """Whether a process works on the run, by the lock that it keeps on its events."""
    if (path / "outcome.json").exists():
        return "ended"
    try:
        with open_plain(path / "events.jsonl") as file, _looking:
            return "live" if is_held(file) else "stopped"
    except OSError:
        return "stopped"


def run_href(name: str, batch: str | None = None) -> str:
    """Where a run's page is; empty for a name that no address can hold."""
    folder = "" if batch is None else batch_href(batch)
    own = _quoted(name)
    return f"{folder}/run/{own}" if own and (batch is None or folder) else ""


def batch_href(name: str) -> str:
    own = _quoted(name)
    return f"/batch/{own}" if own else ""


def shown(name: str) -> str:
    """A folder's name as text; bytes that are none are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def _quoted(name: str) -> str:
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        return ""


def _inside(root: Path, name: str) -> Path | None:
    """The folder of that name directly under `root`; None for what is no plain name."""
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        return None
    path = root / name
    try:
        return path if path.is_dir() else None
    except OSError:
        return None


def _folders(root: Path, holding: str) -> list[Path]:
    """The folders under `root` that hold that file, by name, last first."""
    try:
        with os.scandir(root) as found:
            names = sorted((entry.name for entry in found if not entry.name.startswith(".")), reverse=True)
    except OSError:
        return []
    return [root / name for name in names if (root / name / holding).is_file()]


def _signature(path: Path) -> tuple[object, ...]:
    return tuple(_stamp(path / name) for name in ("config.json", "outcome.json", "events.jsonl", "best", QUEUE_NAME))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def _glance(path: Path, href: str, state: State) -> RunGlance:
    try:
        run = RunFolder(path)
        config = run.config()
        outcome = run.outcome() or {}
        events = list(last_events(path / "events.jsonl"))
        return RunGlance(
            name=shown(path.name),
            href=href,
            state=state,
            words=_end_of(outcome, events) if outcome else waits_for(events) if state == "live" else "",
            task=task_name(run),
            models=short_models(models_of(config, events)),
            **_progress(events),
            **_best(path, outcome),
        )
    except (RunFolderError, OSError, ValueError, TypeError, KeyError) as error:
        words = getattr(error, "message", "") or f"can't be read: {type(error).__name__}"
        return RunGlance(name=shown(path.name), href=href, state="damaged", words=words)


def _end_of(outcome: Json, events: Sequence[Json]) -> str:
    known = next((reason for reason in STOP_WORDS if reason == outcome.get("reason")), None)
    return "" if known is None else end_words(known, lambda: events)


def last_events(path: Path) -> Iterator[Json]:
    """The events at the end of the file."""
    try:
        size = path.stat().st_size
        with open_plain(path) as file:
            text = os.pread(file.fileno(), _TAIL, max(0, size - _TAIL))
    except FileNotFoundError:
        return
    lines = text.split(b"\n")
    for line in lines if size <= _TAIL else lines[1:]:
        told = event_in(line.decode(errors="replace"))
        if told is not None:
            yield told


def _progress(events: Iterable[Json]) -> dict[str, object]:
    """How far it is, by the last events."""
    found: dict[str, object] = {}
    for told in events:
        for name in ("iteration", "iterations", "elapsed"):
            value = told.get(name)
            if told["event"] in ("iteration_started", "iteration_ended", "run_ended") and isinstance(
                value, int | float
            ):
                found[name] = value
    return found


def _best(path: Path, outcome: Json) -> dict[str, object]:
    """The best attempt's figures; of a run that ended, those of its last, fresh measurement."""
    folders = [name for name in _names(path / "attempts") if name[:1] == "a" and name[1:].isdigit()]
    found: dict[str, object] = {"attempts": len(folders)}
    try:
        best = (path / "best").readlink().name
    except OSError:
        return found
    attempt, start = _attempt(path, best), _attempt(path, "a0")
    if attempt is None:
        return found
    last = _measured_last(outcome, best)
    figures: Attempt | LastMeasurement = last or attempt
    known = _Attempts(path)
    claim = claim_of(attempt, start_of({"a0": start} if start is not None else {}), known, last)
    names = ("seconds", "share_of_limit", "speedup")
    return found | {"best": attempt.id, "claim": claim.cell} | {name: getattr(figures, name) for name in names}


def _measured_last(outcome: Json, best: str) -> LastMeasurement | None:
    """What the final verdict says, where there is one that accepted."""
    final = outcome.get("final")
    if not isinstance(final, dict) or outcome.get("best") != best:
        return None
    try:
        told = told_of(final)
    except ValidationError:
        return None
    return LastMeasurement.model_validate(told["last"]) if told else None


class _Attempts(Mapping[str, Attempt]):
    """A run's attempts, each read when it is asked for: a chain of races leads over few of them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getitem__(self, name: str) -> Attempt:
        found = _attempt(self._path, name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_names(self._path / "attempts"))

    def __len__(self) -> int:
        return len(_names(self._path / "attempts"))


def _attempt(path: Path, name: str) -> Attempt | None:
    if name[:1] != "a" or not name[1:].isdigit():
        return None
    try:
        with open_plain(path / "attempts" / name / "attempt.json") as file:
            return Attempt.model_validate(json.load(file))
    except (OSError, ValueError, RecursionError):
        return None


def _names(path: Path) -> list[str]:
    try:
        return [each.name for each in path.iterdir()]
    except OSError:
        return []
