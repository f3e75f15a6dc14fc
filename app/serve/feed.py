"""The lines that a run adds to its events, from any place of the file on: what a browser is told while it looks.

A place is a number of bytes, so a reader that was cut off goes on where it was. A file that was cut short or begun anew
is read from its beginning, and the reader is told. However long a file or a line is, little of it is held at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.log_lines import log_line
from memory.files import Json, open_plain
from memory.tail import event_in

PIECE: Final = 1 << 18
"""Bytes that are read at once."""
LONGEST: Final = 1 << 22
"""Bytes of a line; a longer one is passed over."""
TEXT_LENGTH: Final = 1_000
"""Characters of a line that are shown."""


@dataclass(frozen=True)
class Told:
    """One event as a line. `place` is where the file goes on after it."""

    place: int
    kind: str
    text: str


class LineFeed:
    """Reads on from `place`. `begun_anew` says that the last call began at the file's beginning again."""

    def __init__(self, path: Path, place: int = 0) -> None:
        self.path = path
        self.place = max(0, place)
        self.begun_anew = False
        self._inode: int | None = None

    def texts(self) -> Iterator[str]:
        """The next whole lines, some of them where there are many; `place` is where each ends. Raises OSError when the
        file can't be read."""
        try:
            file = open_plain(self.path)
        except FileNotFoundError:
            return
        with file:
            state = os.fstat(file.fileno())
            self.begun_anew = self._is_another(file.fileno(), state)
            if self.begun_anew:
                self.place = 0
            self._inode = state.st_ino
            for line in _whole(self._piece(file.fileno(), state.st_size)):
                self.place += len(line)
                yield line.decode(errors="replace")

    def _is_another(self, descriptor: int, state: os.stat_result) -> bool:
        """Whether our place is none of this file: another file, or no line of it ends there."""
        other = self._inode is not None and state.st_ino != self._inode
        return other or (self.place > 0 and os.pread(descriptor, 1, self.place - 1) != b"\n")

    def _piece(self, descriptor: int, size: int) -> bytes:
        """What follows, with a whole line unless there is none; nothing of a line that is too long."""
        piece = os.pread(descriptor, PIECE, self.place)
        while b"\n" not in piece and self.place + len(piece) < size:
            if len(piece) >= LONGEST:
                self._pass_over(descriptor, self.place + len(piece), size)
                return b""
            piece += os.pread(descriptor, PIECE, self.place + len(piece))
        return piece

    def _pass_over(self, descriptor: int, at: int, size: int) -> None:
        """Go on after the line that is too long, once it has an end."""
        while at < size:
            piece = os.pread(descriptor, PIECE, at)
            end = piece.find(b"\n")
            if end >= 0:
                self.place = at + end + 1
                return
            if not piece:
                return
            at += len(piece)


class Feed(LineFeed):
    """The same of a run's events."""

    def lines(self) -> list[Told]:
        """The next events. Raises OSError when the file can't be read."""
        return [
            Told(self.place, str(told["event"]), words(told))
            for text in self.texts()
            if (told := event_in(text)) is not None
        ]


def near_end(path: Path, piece: int = PIECE) -> int:
    """Where the first whole line begins among the last `piece` bytes, or before them where a line is longer than that.
    Raises OSError."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    with open_plain(path) as file:
        for begin in range(size - piece, max(0, size - LONGEST), -piece):
            found = os.pread(file.fileno(), piece, begin).find(b"\n")
            if found >= 0:
                return begin + found + 1
    return 0


def latest(path: Path, lines: int, piece: int = PIECE) -> tuple[list[Told], int]:
    """The last lines of a file, and the place where it goes on. Raises OSError."""
    feed = Feed(path, near_end(path, piece))
    return feed.lines()[-lines:], feed.place


def words(told: Json) -> str:
    """An event on one line, also one that another program wrote."""
    try:
        text = log_line(told)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        text = f"-  {told['event']} (this line can't be read)"
    return text if len(text) <= TEXT_LENGTH else f"{text[: TEXT_LENGTH - 1]}…"


def _whole(text: bytes) -> list[bytes]:
    """The lines that have an end, with it. Only a line feed ends a line."""
    end = text.rfind(b"\n") + 1
    return [line + b"\n" for line in text[:end].split(b"\n")[:-1]]
