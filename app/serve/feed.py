"""The lines that a run adds to its events, from any place of the file on: what a browser is told while it looks.

A place is a number of bytes, so a reader that was cut off goes on where it was. A file that was cut short or begun anew
is read from its beginning, and the reader is told. However long a file or a line is, little of it is held at once.
"""

from __future__ import annotations

import os
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


class Feed:
    """Reads on from `place`. `begun_anew` says that the last call began at the file's beginning again."""

    def __init__(self, path: Path, place: int = 0) -> None:
        self.path = path
        self.place = max(0, place)
        self.begun_anew = False
        self._inode: int | None = None

    def lines(self) -> list[Told]:
        """The next whole lines, some of them where there are many. Raises OSError when the file can't be read."""
        try:
            file = open_plain(self.path)
        except FileNotFoundError:
            return []
        with file:
            state = os.fstat(file.fileno())
            self.begun_anew = self._is_another(file.fileno(), state)
            if self.begun_anew:
                self.place = 0
            self._inode = state.st_ino
            return self._read(file.fileno(), state.st_size)

    def _is_another(self, descriptor: int, state: os.stat_result) -> bool:
        """Whether our place is none of this file: another file, or no line of it ends there."""
        other = self._inode is not None and state.st_ino != self._inode
        return other or (self.place > 0 and os.pread(descriptor, 1, self.place - 1) != b"\n")

    def _read(self, descriptor: int, size: int) -> list[Told]:
        piece = os.pread(descriptor, PIECE, self.place)
        while b"\n" not in piece and self.place + len(piece) < size:
            if len(piece) >= LONGEST:
                self._pass_over(descriptor, self.place + len(piece), size)
                return []
            piece += os.pread(descriptor, PIECE, self.place + len(piece))
        found = []
        for line in _whole(piece):
            self.place += len(line)
            told = event_in(line.decode(errors="replace"))
            if told is not None:
                found.append(Told(self.place, str(told["event"]), words(told)))
        return found

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


def latest(path: Path, lines: int, piece: int = PIECE) -> tuple[list[Told], int]:
    """The last lines of a file, and the place where it goes on. Raises OSError."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return [], 0
    with open_plain(path) as file:
        begin = max(0, size - piece)
        text = os.pread(file.fileno(), piece, begin)
    if begin:
        first = text.find(b"\n") + 1
        begin, text = begin + first, text[first:]
    place, found = begin, []
    for line in _whole(text):
        place += len(line)
        told = event_in(line.decode(errors="replace"))
        if told is not None:
            found.append(Told(place, str(told["event"]), words(told)))
    return found[-lines:], place


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
