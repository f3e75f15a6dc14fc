"""What happens during a run, as it happens: the lines of `events.jsonl` and what `on_event` is called with.

A line is one JSON object. Kinds, fields and units are the records of `agents/event_schema.py`, and docs/events.md lists
them. Where in the run a line belongs is bound once, by whoever knows it (`bound`), and follows the work through every
task and thread that it starts: coders in parallel do not mix.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO, TypeAlias, cast

import structlog
from pydantic import BaseModel, ConfigDict, JsonValue

from agents.event_line import BOUND, VERSION
from agents.event_schema import check
from agents.secrets import Scrubber
from agents.told import Told
from memory.files import RunFolderError, write_failure

EventKind: TypeAlias = Literal[
    "run_started",
    "run_resumed",
    "task_opened",
    "iteration_started",
    "hypothesis",
    "attempt_judged",
    "best_changed",
    "profiled",
    "diagnosed",
    "turn_started",
    "model_called",
    "model_retried",
    "model_failed",
    "model_changed",
    "model_corrected",
    "tool_called",
    "judge_retried",
    "lesson",
    "lessons_failed",
    "iteration_ended",
    "budget_low",
    "samples_raced",
    "stopping",
    "run_ended",
    "run_paused",
    "run_failed",
    "steered",
    "steer_refused",
    "answered",
    "plan_waits",
    "exported",
]


class Event(BaseModel):
    """One thing that happened; `fields` as the kind's record in `agents.event_schema` says. `bound`: where in the run,
    as far as it applies and is not one of the fields: run, task, iteration, turn, role, model, attempt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: EventKind
    fields: dict[str, JsonValue]
    bound: dict[str, JsonValue] = {}


OnEvent: TypeAlias = Callable[[Event], None]


@contextmanager
def bound(**values: JsonValue) -> Iterator[None]:
    """Within it, all lines and library logs of this task and of those that it starts have these values."""
    with structlog.contextvars.bound_contextvars(**values):
        yield


def where() -> dict[str, JsonValue]:
    """What is bound here."""
    now = structlog.contextvars.get_contextvars()
    return {name: now[name] for name in BOUND if now.get(name) is not None}


class Journal:
    """Writes each event to `path` and tells `on_event`, both without keys. While it is open, it holds a lock on the
    file, so that others can see whether the run is at work (`memory.tail`); not where `is_work` is false, for a word
    about a run that nobody works on. Belongs to one event loop.

    Of what is told once, such as an attempt, nothing is told that an earlier process told (`agents.told`).

    Raises `RunFolderError` when the disk is full, and pydantic's ValidationError for an event that is not as the
    schema says.
    """

    def __init__(
        self,
        path: Path,
        on_event: OnEvent,
        scrubber: Scrubber | None = None,
        told: Told | None = None,
        *,
        is_work: bool = True,
    ) -> None:
        self.path = path
        self._is_work = is_work
        self._told = told or Told()
        self._on_event = on_event
        self._scrubber = scrubber or Scrubber()
        self._folder = _stat(path.parent)
        self._open()

    def tell(self, event: EventKind, **fields: JsonValue) -> None:
        fields = {name: self._scrubber.json(value) for name, value in fields.items()}
        if not self._told.is_new(event, fields):
            return
        around = {name: self._scrubber.json(value) for name, value in where().items() if name not in fields}
        try:
            self._stay_at_the_path()
            self._log.msg(event, **around, **fields)
        except OSError as error:
            raise write_failure(self.path, error) from error
        self._on_event(Event(event=event, fields=fields, bound=around))

    def flush(self) -> None:
        """What was told so far survives a power cut."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise write_failure(self.path, error) from error

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _open(self) -> None:
        """The file, locked where its file system knows locks; what is written next begins a line."""
        try:
            if not os.path.samestat(self.path.parent.stat(), self._folder):
                advice = "It was moved or removed while the run went on."
                raise RunFolderError(f"the run folder {self.path.parent} is gone", advice)
            self._file = _WholeLines(self.path)
            if self._is_work:
                with suppress(OSError):
                    fcntl.flock(self._file, fcntl.LOCK_SH)
            if ends_torn(self.path):
                self._file.write("\n")
        except OSError as error:
            raise write_failure(self.path, error) from error
        self._log = structlog.wrap_logger(
            structlog.WriteLogger(cast(TextIO, self._file)),
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
                _versioned,
                structlog.processors.JSONRenderer(sort_keys=False),
                _checked,
            ],
        )

    def _stay_at_the_path(self) -> None:
        """Begin another file where ours was moved away, as by a rotation of logs."""
        ours = os.fstat(self._file.fileno())
        try:
            there: os.stat_result | None = self.path.stat()
        except FileNotFoundError:
            there = None
        if there is None or not os.path.samestat(there, ours):
            self._file.close()
            self._open()


def _stat(folder: Path) -> os.stat_result:
    try:
        return folder.stat()
    except OSError as error:
        raise write_failure(folder, error) from error


class _WholeLines:
    """A file that is added to: what is written is there at once, or not at all."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> None:
        """Raises OSError; a part that a full disk still took is taken back."""
        data, done = text.encode(), 0
        before = os.fstat(self._descriptor).st_size
        try:
            while done < len(data):
                done += os.write(self._descriptor, data[done:])
        except OSError:
            with suppress(OSError):
                if os.fstat(self._descriptor).st_size == before + done:
                    os.ftruncate(self._descriptor, before)
            raise

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Again changes nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def ends_torn(path: Path) -> bool:
    """Whether the file ends amid a line, as after a kill. Raises OSError."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _versioned(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What every line begins with, before the rest."""
    return {"event": line.pop("event"), "time": line.pop("time"), "v": VERSION, **line}


def _checked(_logger: object, _method: str, line: Any) -> str:
    """`line` as it is, once it is what the schema says."""
    check(str(line))
    return str(line)
