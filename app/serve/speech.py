"""What models said of late and what they say now, for a browser: little at the beginning, then what comes.

It is put together as in a session (`app.replies`), and read as the dashboard reads all files (`app.serve.feed`): when
the file is begun anew, what was said since the last look is lost.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.spoken import SPOKEN, piece_in
from app.plain import one_line, printable
from app.replies import Replies, Reply
from app.serve.feed import LineFeed, near_end

RECENT: Final = 1 << 16
"""Bytes at the end of the file that a reader begins with."""
SHOWN: Final = 6
"""Replies, the newest."""
MOST_TEXT: Final = 4_000
"""Characters of a reply that are told at once; of more, the last ones."""
_LONGEST_NAME: Final = 80


@dataclass(frozen=True)
class Said:
    """What was added to a reply. is_cut: what came before the text is not told."""

    reply: int
    speaker: str
    text: str
    is_over: bool
    is_cut: bool


class Hearing:
    """Follows the words in a run folder for one reader."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SPOKEN
        self._feed: LineFeed | None = None
        self._replies = Replies(Reply)
        self._told: dict[int, tuple[int, bool]] = {}
        """By a reply's number: how many of its characters, and whether it was over."""

    def news(self) -> list[Said]:
        """What came since the last call; nothing where the file can't be read."""
        with suppress(OSError):
            self._feed = self._feed or LineFeed(self._path, near_end(self._path, RECENT))
            self._replies.hear(piece for text in self._feed.texts() if (piece := piece_in(text)) is not None)
        shown = self._replies.newest[-SHOWN:]
        found = [self._since(reply) for reply in shown if self._told.get(reply.number) != (reply.said, reply.is_over)]
        self._told = {reply.number: (reply.said, reply.is_over) for reply in shown}
        return found

    def _since(self, reply: Reply) -> Said:
        told, _ = self._told.get(reply.number, (0, False))
        fresh = min(reply.said - told, MOST_TEXT)
        return Said(
            reply=reply.number,
            speaker=one_line(reply.speaker[: 4 * _LONGEST_NAME])[:_LONGEST_NAME],
            text=printable(reply.text[len(reply.text) - fresh :]),
            is_over=reply.is_over,
            is_cut=fresh < reply.said - told,
        )
