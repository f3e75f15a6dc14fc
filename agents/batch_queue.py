"""A batch's folder: what was asked for, written once, and the journal of its queue, which only grows.

A line of the journal is one write and is on the disk before anything follows from it, so a kill or a power cut loses
at most the line that was being written; such a torn end is cut off when the batch is taken up again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from agents.batch import LINE, Batch, Line, QueuedTask
from agents.batch_board import Board
from memory.files import Json, RunFolderError, new_folder, or_no_folder, read_text, write_atomically, write_failure
from memory.lock import hold
from memory.runs import RunFolder, list_runs

BATCH_NAME, QUEUE_NAME = "batch.json", "queue.jsonl"
TASK_FIELD = "batch_task"
"""Of a run's config.json: the task's key."""


class BatchFolder:
    """All methods that write raise `RunFolderError` when the disk is full or not writable."""

    def __init__(self, path: Path) -> None:
        """Opens an existing one; `RunFolderError` when it is none."""
        if not (path / BATCH_NAME).is_file():
            raise RunFolderError(
                f"{path} is not the folder of a batch", f"Name the folder that holds {BATCH_NAME} and {QUEUE_NAME}."
            )
        self.path = path
        self._runs: dict[str, Path] = {}

    @classmethod
    def create(cls, root: Path, batch: Batch) -> BatchFolder:
        """Makes `<stamp>-batch-<name>` under `root`, unique even when two batches start at once."""
        path = new_folder(root, "batch-", batch.name, "tasks")
        with or_no_folder(path):
            write_atomically(path / BATCH_NAME, batch.model_dump_json(indent=1) + "\n")
        return cls(path)

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    def batch(self) -> Batch:
        """What `create` was given. Raises RunFolderError when it can't be read."""
        path = self.path / BATCH_NAME
        try:
            return Batch.model_validate_json(read_text(path))
        except ValidationError as error:
            raise RunFolderError(f"{path} does not describe a batch", "The folder may be damaged.") from error

    def lines(self) -> list[Line]:
        """The journal so far, a torn end left out. Raises RunFolderError when a whole line is none of ours."""
        path = self.path / QUEUE_NAME
        if not path.exists():
            return []
        written = read_text(path)
        whole = written[: written.rfind("\n") + 1].splitlines()
        try:
            return [LINE.validate_json(line) for line in whole]
        except ValidationError as error:
            raise RunFolderError(f"{path} holds a line that says nothing", "The folder may be damaged.") from error

    def board(self) -> Board:
        return Board.of(self.batch(), self.lines())

    def run_of(self, key: str) -> RunFolder | None:
        """The task's run folder, once its first turn began: read anew each time, since another process writes it."""
        if key not in self._runs:
            for run in list_runs(self.runs):
                self._runs.setdefault(str(run.config().get(TASK_FIELD)), run.path)
        return RunFolder(self._runs[key]) if key in self._runs else None

    def begin_run(self, task: QueuedTask, config: Json) -> RunFolder:
        """The task's run folder, made now when there is none."""
        run = self.run_of(task.key)
        if run is None:
            run = RunFolder.create(self.runs, task.key, {**config, TASK_FIELD: task.key})
            self._runs[task.key] = run.path
        return run

    @contextmanager
    def journal(self) -> Iterator[QueueJournal]:
        """The journal to add to, by one process at a time. Raises RunFolderError when another one has it."""
        with hold(self.path):
            journal = QueueJournal(self.path / QUEUE_NAME)
            try:
                yield journal
            finally:
                journal.close()


class QueueJournal:
    """Adds lines. A torn end of an earlier process is cut off first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            whole = path.read_bytes().rfind(b"\n") + 1
            os.ftruncate(self._descriptor, whole)
        except OSError as error:
            raise write_failure(path, error) from error

    def add(self, line: Line) -> None:
        """One whole line, on the disk afterwards. Raises RunFolderError; a part that was written is taken back."""
        data = LINE.dump_json(line) + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, data) != len(data):
                os.ftruncate(self._descriptor, before)
                raise OSError(28, "the disk is full")
            os.fsync(self._descriptor)
        except OSError as error:
            raise write_failure(self.path, error) from error

    def close(self) -> None:
        os.close(self._descriptor)


def time_at_work(run: RunFolder) -> float:
    """Seconds that the run has been at work, as its events say."""
    times = [event.get("elapsed") for event in run.events() if event["event"] in ("iteration_ended", "run_ended")]
    return max((float(seconds) for seconds in times if isinstance(seconds, int | float)), default=0.0)
