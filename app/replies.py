"""What models said of late, put together from pieces, each speaker apart. Knows no screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from agents.spoken import Piece

SPOKEN: Final = 40_000
"""Characters of one reply that are kept."""
REPLIES: Final = 12
"""That are kept."""
NOBODY_YET: Final = (
    "Nobody spoke yet. builtin:autotune says nothing; a language model's reply is shown here as it comes."
)
NOBODY: Final = "Nobody spoke. What models said in full is in the run's transcripts."


@dataclass
class Reply:
    """One reply, or its end where it is long."""

    number: int
    """Grows from one to the next."""
    speaker: str
    text: str = ""
    said: int = 0
    """Characters so far, also of those that are not kept."""
    is_over: bool = False

    def add(self, text: str) -> None:
        text = text if self.said else text.lstrip()
        self.said += len(text)
        self.text = (self.text + text)[-SPOKEN:]


R = TypeVar("R", bound=Reply)


class Replies(Generic[R]):
    """The newest replies, in the order in which they began. begin: makes one of a number and a speaker."""

    def __init__(self, begin: Callable[[int, str], R]) -> None:
        self.version = 0
        """Grows with each piece."""
        self.newest: list[R] = []
        self._begin = begin
        self._begun = 0

    def hear(self, pieces: Iterable[Piece]) -> None:
        """A speaker's piece joins the reply that it is amid of, or begins another one."""
        for piece in pieces:
            self.version += 1
            reply = next((r for r in reversed(self.newest) if r.speaker == piece.speaker and not r.is_over), None)
            if reply is None and piece.text.strip():
                self._begun += 1
                reply = self._begin(self._begun, piece.speaker)
                self.newest = [*self.newest[1 - REPLIES :], reply]
            if reply is not None:
                reply.add(piece.text)
                reply.is_over = piece.is_last
