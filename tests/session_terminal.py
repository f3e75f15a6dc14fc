"""A session in a real terminal, and what stands on its screen: each key is pressed once what the one before it did is
seen there, and nothing is left to time."""

from __future__ import annotations

import os
import re
import select
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rich.cells import cell_len
from session_pilot import PATIENCE

from bench.session import SIZE, Terminal
from memory.runs import RunFolder

_PIECE: Final = re.compile(
    r"\x1b\[(\d+);(\d+)H|\x1b\[[0-9;?<>=$]*[A-Za-z]|\x1b[^\[]|(\n)|([^\x1b\x00-\x1f])|[\x00-\x1f]"
)
"""Of what is written to a terminal: a place, something else that it obeys, a line's end, a character."""
_CUT: Final = re.compile(r"\x1b(\[[0-9;?<>=$]*)?$")
"""The beginning of what it obeys."""
_ANEW: Final = "\x1b[?1049h"
"""An empty screen beside the one that there was."""


class Sheet:
    """Characters, as a terminal has them."""

    def __init__(self, columns: int, lines: int) -> None:
        self._rows = [[" "] * columns for _ in range(lines)]
        self._x = self._y = 0
        self._rest = ""

    def write(self, text: str) -> None:
        """What a terminal would be sent; the end of it may be amid a sequence."""
        text = self._rest + text
        cut = _CUT.search(text)
        self._rest = "" if cut is None else cut.group()
        for piece in _PIECE.finditer(text.removesuffix(self._rest)):
            line, column, end, character = piece.groups()
            if line is not None:
                self._x, self._y = int(column) - 1, int(line) - 1
            elif piece.group() == _ANEW:
                self._rows = [[" "] * len(row) for row in self._rows]
            elif end is not None:
                self._y += 1
            elif character is not None:
                self._put(character)

    def _put(self, character: str) -> None:
        if self._y < len(self._rows) and self._x < len(self._rows[self._y]):
            self._rows[self._y][self._x] = character
        self._x += cell_len(character)

    @property
    def text(self) -> str:
        return "\n".join("".join(row) for row in self._rows)


class Watched(Terminal):
    """One whose screen is followed."""

    def __init__(self, run: RunFolder) -> None:
        super().__init__(run)
        lines, columns = SIZE
        self._sheet, self._decode = Sheet(columns, lines), getincrementaldecoder("utf-8")().decode

    def left_by(self, keys: bytes) -> int:
        """Write these, by which it ends: how the terminal takes what is typed then, as its flags."""
        os.write(self._terminal, keys)
        with suppress(OSError):  # nobody has the other end any more
            while select.select([self._terminal], [], [], PATIENCE)[0]:
                os.read(self._terminal, 1 << 16)
        self.process.wait(PATIENCE)
        return int(termios.tcgetattr(self._terminal)[3])

    def send(self, keys: bytes, until: Callable[[str], bool]) -> None:
        """Write these, and read until that holds of what stands on the screen."""
        os.write(self._terminal, keys)
        end = time.monotonic() + PATIENCE
        while not until(self._sheet.text):
            left = max(0.0, end - time.monotonic())
            assert select.select([self._terminal], [], [], left)[0], f"nothing came of {keys!r}:\n{self._sheet.text}"
            self._sheet.write(self._decode(os.read(self._terminal, 1 << 16)))
