"""A file of lines that another process writes: what came since the last look, and whether somebody writes still.

Survives what happens to logs: a torn line (it is given out once it is whole), a file that was cut short (it is read
from its beginning), and one that was moved away and begun anew (the old one is read to its end first). Not covered: a
file that was cut short and begun with the very same bytes, and grew past the old end, before the next look.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from memory.files import Json, RunFolderError, open_plain

_PIECE = 1 << 20
"""Bytes."""
_HEAD = 256
"""Bytes by which a file is known again: a line's time is among them."""


class Tail:
    """The lines of `path`, from its beginning; the file need not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._torn = b""
        self._head = b""

    def lines(self) -> Iterator[str]:
        """All whole lines that came since the last call, without their ends. Raises `RunFolderError`."""
        try:
            if self._file is not None:
                if self._was_cut():
                    self._file.seek(0)
                    self._torn = self._head = b""
                yield from self._new()
            if self._begun_anew():
                yield from self._new()
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def is_written(self) -> bool | None:
        """Whether a process holds the lock that `agents.events.Journal` keeps on the file that was read last; None when
        the file system can't tell."""
        return False if self._file is None else is_held(self._file)

    def __enter__(self) -> Tail:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def _was_cut(self) -> bool:
        """Whether the file is another text than that which was read."""
        assert self._file is not None
        shorter = os.fstat(self._file.fileno()).st_size < self._file.tell()
        return shorter or os.pread(self._file.fileno(), len(self._head), 0) != self._head

    def _new(self) -> Iterator[str]:
        assert self._file is not None
        if len(self._head) < _HEAD:
            self._head = os.pread(self._file.fileno(), _HEAD, 0)
        while piece := self._file.read(_PIECE):
            *whole, self._torn = (self._torn + piece).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")

    def _begun_anew(self) -> bool:
        """Open the file that is at the path now, if it is another one than ours."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        if self._file is not None:
            if os.path.samestat(there, os.fstat(self._file.fileno())):
                return False
            self._file.close()
        self._file, self._torn, self._head = open_plain(self.path), b"", b""
        return True


def is_held(file: BinaryIO) -> bool | None:
    """Whether a process keeps a lock on the file; None when the file system can't tell. Looking takes the lock for a
    moment: of two that look at once, one may see the other."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


LONGEST_INTEGER = 300
"""Digits. No event has a number of more, and none of more is a float."""


def event_in(line: str) -> Json | None:
    """The event that a line of `events.jsonl` tells of; None for a torn one."""
    try:
        told = json.loads(line, parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) and isinstance(told.get("event"), str) else None


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_INTEGER:
        raise ValueError(f"{len(digits)} digits")
    return int(digits)


def read_events(path: Path) -> list[Json]:
    """The events of a whole file, also one that does not end with a line's end; none when there is no file.

    Raises `RunFolderError` when it can't be read.
    """
    try:
        with open_plain(path) as file:
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(path, error) from error
    return [event for line in text.split("\n") if (event := event_in(line)) is not None]


def _unreadable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"can't read {path}: {error.strerror}", "Check its permissions.")
