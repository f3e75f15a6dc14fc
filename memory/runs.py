"""The run folder: everything one run leaves behind, each file written atomically.

    runs/<stamp>-<task>/
      config.json     what was asked for (see `RunFolder.create`)
      facts.json      a `tools.facts.TaskFacts`, once the task was opened
      events.jsonl    one JSON object a line (kinds and fields: docs/events.md)
      log.jsonl       warnings of libraries, if there were some
      state.sqlite    LangGraph checkpoints
      attempts/a7/    attempt.json, verdict.json, kernel/<files>; profile.json, diagnosis.json, final.json if there are
      best            link to the best attempt's folder, swapped atomically; absent until an attempt was accepted
      outcome.json    how the run ended; absent while it runs
      transcript/     one JSON-lines file a model turn: a `view` line, the opening by blob id, then what was said
      blobs/          texts by content hash
      evicted/        texts that gave way in a prompt, whole
      scores.jsonl    what each attempt's hypothesis came to, once its iteration is over
      hints.jsonl     what the user told the agents, and since which iteration
      commands.jsonl  what a person did to the run (agents/steering_box.py)
      spoken.jsonl    what models said of late, to be watched only: bounded, for its owner alone (agents/spoken.py)
      tokens.jsonl    our count of each prompt beside the provider's
      run.lock        which process writes into the folder (memory/lock.py)

JSON goes in and out as plain dicts: the records behind them belong to other packages. An attempt is on the disk before
anything refers to it, and so is what the next prompts are made of; of the rest a power cut may take the newest lines.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from memory.attempts import Attempt
from memory.calibration import Calibration
from memory.files import (
    Clean,
    Json,
    RunFolderError,
    as_it_is,
    as_json,
    flush,
    link_atomically,
    new_folder,
    or_no_folder,
    read_json,
    read_json_if_there,
    remove,
    write_atomically,
    write_failure,
)
from memory.history import Blobs, Evicted, JsonLines, Transcript
from memory.lock import hold
from memory.tail import read_events

__all__ = ["FORMAT", "Attempt", "RunFolder", "list_runs"]

_ID = re.compile(r"a[0-9]+")
"""Of an attempt."""
FORMAT = 2
"""Of the run folder; what older ones need is in agents/upgrade.py."""


class RunFolder:
    """One run's folder. All methods that write raise `RunFolderError` when the disk is full or not writable."""

    def __init__(self, path: Path) -> None:
        """Opens an existing run folder; `RunFolderError` when it is none."""
        if not (path / "config.json").is_file():
            raise RunFolderError(f"{path} is not a run folder", "`warpsmith runs` lists those there are.")
        self.path = path
        self._is = path.stat()
        self._clean: Clean = as_it_is
        self.blobs = Blobs(path / "blobs", self._cleaned)
        self.evicted = Evicted(path / "evicted", self._cleaned)
        self.calibration = Calibration(path / "tokens.jsonl", self._cleaned)
        self._scores = JsonLines(path / "scores.jsonl", self._cleaned)
        self._hints = JsonLines(path / "hints.jsonl", self._cleaned)
        self._attempts: list[Attempt] | None = None
        self._holds = 0

    @classmethod
    def create(cls, runs_root: Path, task_name: str, config: Json) -> RunFolder:
        """Makes `<stamp>-<task>` under `runs_root`, unique even when two runs start at once, with `config.json` in
        it: what is given, the folder's format, and the name under which its checkpoints are kept."""
        path = new_folder(runs_root, "", task_name, "task")
        named: Json = {"format": FORMAT, "thread": uuid.uuid4().hex}
        with or_no_folder(path):
            write_atomically(path / "config.json", as_json(named | config), durable=True)
        return cls(path)

    def keep_out(self, clean: Clean) -> None:
        """From now on `clean` is done to all that is written: it takes out what must not be."""
        self._clean = clean

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name

    def config(self) -> Json:
        """What `create` was given and wrote, as it was changed since."""
        return read_json(self.path / "config.json")

    def write_config(self, config: Json) -> None:
        """Replace `config.json`."""
        self._write(self.path / "config.json", as_json(config), durable=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process writes into the folder meanwhile; may be entered again inside.

        Raises RunFolderError when one does already.
        """
        if self._holds:
            yield
            return
        with hold(self.path):
            self._holds += 1
            try:
                yield
            finally:
                self._holds -= 1

    def attempts(self) -> list[Attempt]:
        """All attempts in the order of judging."""
        if self._attempts is None:
            folders = sorted(self.path.glob("attempts/a*/attempt.json"), key=lambda p: int(p.parent.name[1:]))
            self._attempts = [Attempt.at(path) for path in folders]
        return list(self._attempts)

    def has_attempts(self) -> bool:
        """Whether something was judged, as far as this object knows; asks no disk that may be gone."""
        return bool(self._attempts)

    def attempt(self, attempt_id: str) -> Attempt:
        """One attempt; `RunFolderError` when there is none of that id. While not all were read, it alone is."""
        path = self.folder_of(attempt_id) / "attempt.json"
        if self._attempts is None and _ID.fullmatch(attempt_id) and path.is_file():
            return Attempt.at(path)
        for attempt in self.attempts():
            if attempt.id == attempt_id:
                return attempt
        raise RunFolderError(
            f"there is no attempt {attempt_id} in {self.id}", f"It has {len(self.attempts())}, from a0 on."
        )

    def verdict(self, attempt_id: str) -> Json:
        """A `tools.records.Verdict` as JSON."""
        return read_json(self.folder_of(attempt_id) / "verdict.json")

    def profile(self, attempt_id: str) -> Json | None:
        """A `tools.profiles.Profile` as JSON, where the attempt was profiled."""
        return read_json_if_there(self.folder_of(attempt_id) / "profile.json")

    def diagnosis(self, attempt_id: str) -> Json | None:
        """An `agents.state.Diagnosis` as JSON, where the analyst gave one."""
        return read_json_if_there(self.folder_of(attempt_id) / "diagnosis.json")

    def scores(self) -> dict[str, Json]:
        """Attempt to an `agents.reflection.Score` as JSON, for attempts of iterations that are over."""
        return {str(line["attempt"]): line for line in self._scores.lines()}

    def hints(self) -> list[Json]:
        """`{"iteration", "text"}` for each thing that the user told the agents; they hear it from that iteration on.
        With `"withdrawn": true` they no longer do."""
        return self._hints.lines()

    def standing_hints(self, iteration: int | None = None) -> list[str]:
        """What the user told the agents and did not withdraw, oldest first; without an iteration, all that is said."""
        found: dict[str, bool] = {}
        for hint in self.hints():
            since = hint.get("iteration")
            if iteration is None or not isinstance(since, int) or since <= iteration:
                found.pop(str(hint["text"]), None)
                found[str(hint["text"])] = not hint.get("withdrawn")
        return [text for text, stands in found.items() if stands]

    def final(self, attempt_id: str) -> Json | None:
        """`{"confirmed": bool, "iteration": int, "seconds": float, "verdict": a Verdict as JSON}` where the attempt was
        measured afresh at the end, which was after that iteration and took so long."""
        return read_json_if_there(self.folder_of(attempt_id) / "final.json")

    def facts(self) -> Json | None:
        """The `tools.facts.TaskFacts` as JSON, once the task was opened."""
        return read_json_if_there(self.path / "facts.json")

    def outcome(self) -> Json | None:
        """An `agents.outcome.Outcome` as JSON; None while the run goes on or when it was killed."""
        return read_json_if_there(self.path / "outcome.json")

    def best(self) -> str | None:
        """Id of the best attempt so far: the last one kept that a fresh measurement has not refuted."""
        return self.best_of(self.attempts())

    def best_of(self, attempts: Sequence[Attempt], iteration: int | None = None) -> str | None:
        """The best of `attempts` as far as was known when `iteration` began; now, without one."""
        for attempt in reversed(attempts):
            if attempt.outcome == "kept" and not self._refuted(attempt.id, iteration):
                return attempt.id
        return None

    def _refuted(self, attempt_id: str, iteration: int | None) -> bool:
        final = self.final(attempt_id)
        if final is None or final.get("confirmed", True):
            return False
        measured_after = final.get("iteration")
        return iteration is None or not isinstance(measured_after, int) or measured_after < iteration

    def events(self) -> list[Json]:
        """The event lines so far; what a kill or a power cut left of a line is passed over."""
        return read_events(self.path / "events.jsonl")

    def folder_of(self, attempt_id: str) -> Path:
        return self.path / "attempts" / attempt_id

    def transcript(self, turn: str) -> Transcript:
        """Where the turn of that name is written down."""
        return Transcript(self.path / "transcript" / f"{turn}.jsonl", self._cleaned)

    def next_id(self) -> str:
        """The id that the next attempt gets."""
        attempts = self.attempts()
        return f"a{int(attempts[-1].id[1:]) + 1}" if attempts else "a0"

    def find_kernel(self, kernel_id: str) -> Attempt | None:
        """The attempt that judged this very kernel, if one did and something was learnt."""
        return next((a for a in self.attempts() if a.kernel_id == kernel_id and a.outcome != "unjudged"), None)

    def add_attempt(self, attempt: Attempt, files: dict[str, str], verdict: Json) -> None:
        """Record an attempt: its folder appears whole, then `best` moves if it was kept."""
        folder = self.folder_of(attempt.id)
        draft = folder.with_name(f".{attempt.id}")
        remove(draft)
        remove(folder)  # no attempt has this id, so what is there is none
        for name, text in files.items():
            self._write(draft / "kernel" / PurePosixPath(name), text)
        self._write(draft / "verdict.json", as_json(verdict))
        self._write(draft / "attempt.json", as_json(attempt.model_dump(mode="json")))
        attempts = self.attempts()
        try:
            for path in (draft / "verdict.json", draft / "attempt.json", draft):
                flush(path)
            draft.rename(folder)
            flush(folder.parent)
        except OSError as error:
            raise write_failure(folder, error) from error
        self._attempts = [*attempts, attempt]
        if attempt.outcome == "kept":
            self._link_best()

    def add_profile(self, attempt_id: str, profile: Json) -> None:
        self._write(self.folder_of(attempt_id) / "profile.json", as_json(profile), durable=True)

    def add_diagnosis(self, attempt_id: str, diagnosis: Json) -> None:
        self._write(self.folder_of(attempt_id) / "diagnosis.json", as_json(diagnosis), durable=True)

    def add_score(self, attempt_id: str, score: Json) -> None:
        """Record what an attempt's hypothesis came to; the first record stands, since prompts were made of it."""
        if attempt_id not in self.scores():
            self._scores.add({"attempt": attempt_id, **score})

    def add_hint(self, text: str, iteration: int) -> None:
        """Tell every role `text` from `iteration` on."""
        self._hints.add({"iteration": iteration, "text": text})

    def withdraw_hint(self, text: str, iteration: int) -> None:
        """No role is told `text` from `iteration` on."""
        self._hints.add({"iteration": iteration, "text": text, "withdrawn": True})

    def add_final(
        self, attempt_id: str, verdict: Json, confirmed: bool, iteration: int = 0, seconds: float = 0.0
    ) -> None:
        """Record the fresh measurement of a winner, taken after `iteration` within so many seconds; one that is not
        confirmed is no longer the best."""
        final: Json = {"confirmed": confirmed, "iteration": iteration, "seconds": seconds, "verdict": verdict}
        self._write(self.folder_of(attempt_id) / "final.json", as_json(final), durable=True)
        self._link_best()

    def write_facts(self, facts: Json) -> None:
        self._write(self.path / "facts.json", as_json(facts))

    def write_outcome(self, outcome: Json) -> None:
        self._write(self.path / "outcome.json", as_json(outcome), durable=True)

    def reopen(self) -> None:
        """The run goes on: it has no outcome any more, and nothing half-written that a kill left behind."""
        try:
            (self.path / "outcome.json").unlink(missing_ok=True)
        except OSError as error:
            raise write_failure(self.path / "outcome.json", error) from error
        for path in [*self.path.glob(".*"), *self.path.glob("*/.*"), *self.path.glob("[ab]*/*/.*")]:
            remove(path)
        self._link_best()

    def require(self) -> None:
        """Raises RunFolderError when the folder is no longer where it was: nothing is to be begun anew in its place."""
        try:
            there = os.path.samestat(self.path.stat(), self._is)
        except OSError:
            there = False
        if not there:
            raise RunFolderError(
                f"the run folder {self.path} is gone", "It was moved or removed while the run went on."
            )

    def _cleaned(self, text: str) -> str:
        """What is written passes here."""
        self.require()
        return self._clean(text)

    def _write(self, path: Path, text: str, durable: bool = False) -> None:
        write_atomically(path, self._cleaned(text), durable)

    def _link_best(self) -> None:
        best = self.best()
        if best is None:
            remove(self.path / "best")
        else:
            link_atomically(self.path / "best", f"attempts/{best}")


def list_runs(runs_root: Path) -> list[RunFolder]:
    """The run folders under `runs_root`, oldest first; things that are no run folder are passed over."""
    return [RunFolder(path.parent) for path in sorted(runs_root.glob("*/config.json"))]
