"""What models said of late, each speaker apart, as lines of a pane's width. Knows no terminal."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.text import Text

from app.replies import Replies, Reply
from app.session.lines import clean, folded


@dataclass
class _Reply(Reply):
    _rows: list[Text] = field(default_factory=list)
    """The whole lines of the text up to `_done`, folded at `_width`."""
    _done: int = 0
    _width: int = 0

    def add(self, text: str) -> None:
        super().add(text)
        if self.said > len(self.text):  # its beginning is gone, and lines begin elsewhere
            self._width = 0

    def lines(self, width: int) -> list[Text]:
        """Only what came since the last call is folded."""
        if width != self._width:
            self._rows, self._done, self._width = [], 0, width
        whole = self.text.rfind("\n") + 1
        if whole > self._done:
            self._rows += folded(self.text[self._done : whole - 1], width)
            self._done = whole
        return [Text(clean(self.speaker, 80), style="bold"), *self._rows, *folded(self.text[whole:], width)]


class Voices(Replies[_Reply]):
    """The newest replies as lines."""

    def __init__(self) -> None:
        super().__init__(_Reply)

    def lines(self, width: int, height: int) -> list[Text]:
        """All of it, a blank line after each reply; nothing while nobody spoke.

        Those that go on are below the others, and of several that go on at the same time only as much is shown as has
        room in `height` lines, so that all are seen.
        """
        going = [reply for reply in self.newest if not reply.is_over]
        most = max(2, height // len(going) - 2) if len(going) > 1 else None
        shown = [reply.lines(width) for reply in self.newest if reply.is_over]
        shown += [_end(reply.lines(width), most) for reply in going]
        return [line for lines in shown for line in (*lines, Text())]


def _end(lines: list[Text], most: int | None) -> list[Text]:
    """Who speaks, and the last lines of what was said."""
    return lines if most is None else [lines[0], *lines[1:][-most:]]
