"""What models said of late, each speaker apart, as lines of a pane's width. Knows no terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from rich.text import Text

from agents.spoken import Piece
from app.session.lines import clean, folded

SPOKEN: Final = 40_000
"""Characters of one reply that are kept."""
REPLIES: Final = 12
"""That are kept."""


@dataclass
class _Reply:
    speaker: str
    text: str = ""
    is_over: bool = False
    _rows: list[Text] = field(default_factory=list)
    """The whole lines of the text up to `_done`, folded at `_width`."""
    _done: int = 0
    _width: int = 0

    def add(self, text: str) -> None:
        self.text = self.text + text if self.text else text.lstrip()
        if len(self.text) > SPOKEN:
            self.text, self._width = self.text[-SPOKEN:], 0

    def lines(self, width: int) -> list[Text]:
        """Only what came since the last call is folded."""
        if width != self._width:
            self._rows, self._done, self._width = [], 0, width
        whole = self.text.rfind("\n") + 1
        if whole > self._done:
            self._rows += folded(self.text[self._done : whole - 1], width)
            self._done = whole
        return [Text(clean(self.speaker, 80), style="bold"), *self._rows, *folded(self.text[whole:], width)]


class Voices:
    """The newest replies, in the order in which they began."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with each piece."""
        self._replies: list[_Reply] = []

    def hear(self, pieces: Iterable[Piece]) -> None:
        """A speaker's piece joins the reply that it is amid of, or begins another one."""
        for piece in pieces:
            self.version += 1
            reply = next((r for r in reversed(self._replies) if r.speaker == piece.speaker and not r.is_over), None)
            if reply is None and piece.text.strip():
                reply = _Reply(piece.speaker)
                self._replies = [*self._replies[1 - REPLIES :], reply]
            if reply is not None:
                reply.add(piece.text)
                reply.is_over = piece.is_last

    def lines(self, width: int, height: int) -> list[Text]:
        """All of it, a blank line after each reply; nothing while nobody spoke.

        Those that go on are below the others, and of several that go on at the same time only as much is shown as has
        room in `height` lines, so that all are seen.
        """
        going = [reply for reply in self._replies if not reply.is_over]
        most = max(2, height // len(going) - 2) if len(going) > 1 else None
        shown = [reply.lines(width) for reply in self._replies if reply.is_over]
        shown += [_end(reply.lines(width), most) for reply in going]
        return [line for lines in shown for line in (*lines, Text())]


def _end(lines: list[Text], most: int | None) -> list[Text]:
    """Who speaks, and the last lines of what was said."""
    return lines if most is None else [lines[0], *lines[1:][-most:]]
