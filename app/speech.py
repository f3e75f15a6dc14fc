"""What models are saying right now: the tail of each speaker's text, for the live panel."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from app.plain import one_line, printable

KEPT = 4_000
"""Characters kept of one speaker: more than a terminal shows."""


class Speech:
    """Collects pieces of text by speaker and shows the last lines of whoever spoke last.

    Its height never shrinks while somebody speaks, so that nothing below it jumps.
    """

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._said: dict[str, str] = {}
        self._ended: set[str] = set()
        self._speaker = ""
        self._height = 0

    def add(self, speaker: str, piece: str) -> None:
        """`speaker` said `piece`: the first of a reply, or the next."""
        before = "" if speaker in self._ended else self._said.get(speaker, "")
        self._ended.discard(speaker)
        self._said[speaker] = (before + piece)[-KEPT:]
        self._speaker = speaker

    def end(self, speaker: str) -> None:
        """Its reply is whole, or lost; what it said stays to be read until somebody speaks."""
        self._ended.add(speaker)

    def __bool__(self) -> bool:
        return bool(self._said.get(self._speaker, "").strip())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self:
            return
        yield Text(one_line(self._speaker), style="bold dim", overflow="ellipsis", no_wrap=True)
        tail = tail_lines(self._said[self._speaker], max(10, options.max_width - 2), self._lines)
        self._height = max(self._height, len(tail))
        for line in [*tail, *[""] * (self._height - len(tail))]:
            yield Text(f"  {line}", style="dim", overflow="ellipsis", no_wrap=True)


def tail_lines(text: str, width: int, lines: int) -> list[str]:
    """The last `lines` lines of a text when folded at `width` cells; empty ones are left out."""
    folded: list[str] = []
    for row in reversed(printable(text[-width * lines * 2 :]).expandtabs(4).splitlines()):
        if not row.strip():
            continue
        pieces = _fold(row.rstrip(), width)
        folded = [*pieces, *folded]
        if len(folded) >= lines:
            break
    return folded[-lines:]


def _fold(row: str, width: int) -> list[str]:
    from rich.cells import chop_cells

    return chop_cells(row, width)
