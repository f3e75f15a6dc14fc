"""Where the panes stand on the screen.

Textual's own grid would do, but to show one pane alone it would take other styles, and to apply those to all widgets
costs more than to draw them. Here a pane that is not shown has no place, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from app.session.steady import Frame, draw_below

_COLUMNS: Final = (0, 10, 24, 34)
"""Edges, as parts of the last one."""
_NARROW: Final = 150
"""Columns below which the plan has more of them, since its lines are of no use without their last words."""
_NARROW_COLUMNS: Final = (0, 13, 24, 34)
_ROWS: Final = (0, 3, 5)
"""Edges above the log, likewise."""
_LOG: Final = 11
"""Lines of the log with its frame."""
_CELLS: Final[Mapping[str, tuple[int, int, int]]] = {
    "plan-pane": (0, 0, 1),
    "kernel": (1, 0, 2),
    "verdict": (2, 0, 1),
    "words": (0, 1, 1),
    "money": (2, 1, 1),
}
"""Column, row, and over how many rows; below them stands the log."""


def places(size: Size) -> dict[str, Region]:
    """Where each pane stands when all are shown at once on so many cells."""
    above = max(0, size.height - _LOG)
    edges = [edge * size.width // _COLUMNS[-1] for edge in (_NARROW_COLUMNS if size.width < _NARROW else _COLUMNS)]
    columns = list(pairwise(edges))
    rows = [edge * above // _ROWS[-1] for edge in _ROWS]
    found = {"log": Region(0, above, size.width, size.height - above)}
    for name, (column, row, span) in _CELLS.items():
        (left, right), top, bottom = columns[column], rows[row], rows[row + span]
        found[name] = Region(left, top, right - left, bottom - top)
    return found


class _Places(Layout):
    """Puts the panes of a board where they belong."""

    name = "board"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:  # noqa: ARG002
        assert isinstance(parent, Board)
        alone = parent.alone
        where = places(size) if alone is None else {alone: size.region}
        return [
            WidgetPlacement(where[pane.id], NULL_OFFSET, NULL_SPACING, pane)
            for pane in children
            if pane.id is not None and pane.id in where
        ]


class Board(Frame):
    """Holds the panes; `alone` is the id of the one that has all the room, None where each has its place."""

    def __init__(self, *panes: Widget, id: str) -> None:
        super().__init__(*panes, id=id)
        self.alone: str | None = None
        self._places = _Places()

    @property
    def layout(self) -> Layout:
        return self._places

    def arrange_for(self, alone: str | None) -> None:
        """Give the room to that pane, or its place to each."""
        if alone != self.alone:
            self.alone = alone
            self._clear_arrangement_cache()
            draw_below(self)
            self.refresh(layout=True, repaint=False)
