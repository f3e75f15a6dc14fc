"""The run folder: everything one run leaves behind, each file written atomically.

    runs/<stamp>-<task>/
      config.json     what was asked for (see `RunFolder.create`)
      facts.json      a `tools.records.TaskFacts`, once the task was opened
      events.jsonl    one JSON object a line (kinds and fields: agents/events.py)
      state.sqlite    LangGraph checkpoints
      attempts/a7/    attempt.json, verdict.json, kernel/<files>; profile.json, diagnosis.json, final.json if there are
      best            link to the best attempt's folder, swapped atomically; absent until an attempt was accepted
      outcome.json    how the run ended; absent while it runs
      transcript/     one JSON-lines file a model turn
      blobs/          texts by content hash

JSON goes in and out as plain dicts: the records behind them belong to other packages. Not covered: two processes that
write into one run folder at the same time.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from memory.files import RunFolderError, link_atomically, read_text, write_atomically, write_failure
from memory.history import Blobs, Transcript
from memory.ledger import LedgerEntry, Outcome

Json: TypeAlias = dict[str, JsonValue]


class Attempt(BaseModel):
    """`attempt.json`. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """a0 (the starting kernel), a1, ... in the order of judging."""
    parent: str | None
    iteration: int
    """0 for the starting kernel."""
    kernel_id: str
    kernel: Json
    """A `tools.records.Kernel` as JSON."""
    hypothesis: Json | None = None
    """An `agents.state.Hypothesis` as JSON; None for the starting kernel."""
    change: str
    """Build settings and edits in words."""
    outcome: Outcome
    note: str = ""
    """Why, in a few words."""
    seconds: float | None = None
    """Present only when accepted, as are the two below."""
    share_of_limit: float | None = None
    speedup: float | None = None
    """Baseline time / attempt time."""
    judged_at: float
    """Unix time."""
    device_seconds: float
    """What judging cost."""

    @property
    def entry(self) -> LedgerEntry:
        """Its ledger line."""
        return LedgerEntry(
            attempt=self.id,
            parent=self.parent,
            change=self.change,
            outcome=self.outcome,
            seconds=self.seconds,
            share_of_limit=self.share_of_limit,
            note=self.note,
        )


class RunFolder:
    """One run's folder. All methods that write raise `RunFolderError` when the disk is full or not writable."""

    def __init__(self, path: Path) -> None:
        """Opens an existing run folder; `RunFolderError` when it is none."""
        if not (path / "config.json").is_file():
            raise RunFolderError(f"{path} is not a run folder", "`warpsmith runs` lists those there are.")
        self.path = path
        self.blobs = Blobs(path / "blobs")
        self._attempts: list[Attempt] | None = None

    @classmethod
    def create(cls, runs_root: Path, task_name: str, config: Json) -> RunFolder:
        """Makes `<stamp>-<task>` under `runs_root`, unique even when two runs start at once, with `config.json` in
        it."""
        word = re.sub(r"[^A-Za-z0-9._-]+", "-", task_name).strip("-.")[:60] or "task"
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for number in range(1, 1000):
            path = runs_root / (f"{stamp}-{word}" if number == 1 else f"{stamp}-{word}-{number}")
            try:
                runs_root.mkdir(parents=True, exist_ok=True)
                path.mkdir()
            except FileExistsError:
                if runs_root.is_dir():
                    continue
                raise RunFolderError(
                    f"{runs_root} is a file, not a folder", "Choose another place with --runs."
                ) from None
            except OSError as error:
                raise write_failure(path, error) from error
            write_atomically(path / "config.json", _dump(config))
            return cls(path)
        raise RunFolderError(f"can't find a free name under {runs_root}", "Try again in a second.")

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name

    def config(self) -> Json:
        """What `create` was given."""
        return _load(self.path / "config.json")

    def attempts(self) -> list[Attempt]:
        """All attempts in the order of judging."""
        if self._attempts is None:
            folders = sorted(self.path.glob("attempts/a*/attempt.json"), key=lambda p: int(p.parent.name[1:]))
            self._attempts = [_attempt(path) for path in folders]
        return list(self._attempts)

    def attempt(self, attempt_id: str) -> Attempt:
        """One attempt; `RunFolderError` when there is none of that id."""
        for attempt in self.attempts():
            if attempt.id == attempt_id:
                return attempt
        raise RunFolderError(
            f"there is no attempt {attempt_id} in {self.id}", f"It has {len(self.attempts())}, from a0 on."
        )

    def verdict(self, attempt_id: str) -> Json:
        """A `tools.records.Verdict` as JSON."""
        return _load(self.folder_of(attempt_id) / "verdict.json")

    def profile(self, attempt_id: str) -> Json | None:
        """A `tools.records.Profile` as JSON, where the attempt was profiled."""
        return _load_if_there(self.folder_of(attempt_id) / "profile.json")

    def diagnosis(self, attempt_id: str) -> Json | None:
        """An `agents.state.Diagnosis` as JSON, where the analyst gave one."""
        return _load_if_there(self.folder_of(attempt_id) / "diagnosis.json")

    def final(self, attempt_id: str) -> Json | None:
        """`{"confirmed": bool, "verdict": a Verdict as JSON}` where the attempt was measured afresh at the end."""
        return _load_if_there(self.folder_of(attempt_id) / "final.json")

    def facts(self) -> Json | None:
        """The `tools.records.TaskFacts` as JSON, once the task was opened."""
        return _load_if_there(self.path / "facts.json")

    def outcome(self) -> Json | None:
        """An `agents.drive.Outcome` as JSON; None while the run goes on or when it was killed."""
        return _load_if_there(self.path / "outcome.json")

    def best(self) -> str | None:
        """Id of the best attempt so far: the last one kept that a fresh measurement has not refuted."""
        for attempt in reversed(self.attempts()):
            if attempt.outcome == "kept" and (self.final(attempt.id) or {}).get("confirmed", True):
                return attempt.id
        return None

    def events(self) -> list[Json]:
        """The event lines so far; a torn last line (after a kill) is left out."""
        path = self.path / "events.jsonl"
        lines = read_text(path).splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def folder_of(self, attempt_id: str) -> Path:
        return self.path / "attempts" / attempt_id

    def transcript(self, turn: str) -> Transcript:
        """Where the turn of that name is written down."""
        return Transcript(self.path / "transcript" / f"{turn}.jsonl")

    def next_id(self) -> str:
        """The id that the next attempt gets."""
        return f"a{len(self.attempts())}"

    def find_kernel(self, kernel_id: str) -> Attempt | None:
        """The attempt that judged this very kernel, if one did and something was learnt."""
        return next((a for a in self.attempts() if a.kernel_id == kernel_id and a.outcome != "unjudged"), None)

    def add_attempt(self, attempt: Attempt, files: dict[str, str], verdict: Json) -> None:
        """Record an attempt: its folder appears whole, then `best` moves if it was kept."""
        folder = self.folder_of(attempt.id)
        draft = folder.with_name(f".{attempt.id}")
        _remove(draft)
        for name, text in files.items():
            write_atomically(draft / "kernel" / PurePosixPath(name), text)
        write_atomically(draft / "verdict.json", _dump(verdict))
        write_atomically(draft / "attempt.json", _dump(attempt.model_dump(mode="json")))
        attempts = self.attempts()
        try:
            draft.rename(folder)
        except OSError as error:
            raise write_failure(folder, error) from error
        self._attempts = [*attempts, attempt]
        if attempt.outcome == "kept":
            self._link_best()

    def add_profile(self, attempt_id: str, profile: Json) -> None:
        write_atomically(self.folder_of(attempt_id) / "profile.json", _dump(profile))

    def add_diagnosis(self, attempt_id: str, diagnosis: Json) -> None:
        write_atomically(self.folder_of(attempt_id) / "diagnosis.json", _dump(diagnosis))

    def add_final(self, attempt_id: str, verdict: Json, confirmed: bool) -> None:
        """Record the fresh measurement of a winner; one that is not confirmed is no longer the best."""
        write_atomically(self.folder_of(attempt_id) / "final.json", _dump({"confirmed": confirmed, "verdict": verdict}))
        self._link_best()

    def write_facts(self, facts: Json) -> None:
        write_atomically(self.path / "facts.json", _dump(facts))

    def write_outcome(self, outcome: Json) -> None:
        write_atomically(self.path / "outcome.json", _dump(outcome))

    def _link_best(self) -> None:
        best = self.best()
        if best is None:
            (self.path / "best").unlink(missing_ok=True)
        else:
            link_atomically(self.path / "best", f"attempts/{best}")


def list_runs(runs_root: Path) -> list[RunFolder]:
    """The run folders under `runs_root`, oldest first; things that are no run folder are passed over."""
    return [RunFolder(path.parent) for path in sorted(runs_root.glob("*/config.json"))]


def _dump(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _load(path: Path) -> Json:
    text = read_text(path)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise RunFolderError(f"{path} is not valid JSON: {error}", "The run folder may be damaged.") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{path} does not hold a JSON object", "The run folder may be damaged.")
    return value


def _load_if_there(path: Path) -> Json | None:
    return _load(path) if path.exists() else None


def _attempt(path: Path) -> Attempt:
    try:
        return Attempt.model_validate(_load(path))
    except ValidationError as error:
        raise RunFolderError(f"{path} does not describe an attempt", "The run folder may be damaged.") from error


def _remove(folder: Path) -> None:
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise write_failure(folder, error) from error
