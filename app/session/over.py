"""What comes over the panes and holds the keys until it is left: help, a line to write, a question, a choice.

None of them is a screen of its own, since to go to another screen and back costs more than all else that a key does.
They are laid out once and stand beyond the edge of the screen; to show one is to move it.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, Generic, TypeVar

from rich.text import Text
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget
from textual.widgets import Static

from app.session.steady import Frame, Placed, draw_below

Answer = TypeVar("Answer")
_FRAME: Final = Size(4, 2)
"""Cells of a border and of the room beside what is in it."""


class Over(Frame):
    """Stands beyond the edge until it is wanted."""

    DEFAULT_CSS = """
    Over {
        offset: 0 -1000; max-width: 96%; max-height: 90%;
        border: round $accent; background: $background; padding: 0 1;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False

    @property
    def is_modal(self) -> bool:
        """Keys of the screen below don't count while it has the focus."""
        return True

    def come(self, focus: Widget) -> None:
        """Over the panes; that widget in it gets the keys."""
        self.is_open = True
        self.styles.offset = (0, 0)
        self.screen.set_focus(focus, scroll_visible=False)

    def go(self) -> None:
        """Off the screen again."""
        if self.is_open:
            self.is_open = False
            draw_below(self)
            self.styles.offset = None


class Words(Static, Placed):
    """Some lines of text."""

    def __init__(self) -> None:
        super().__init__(markup=False)

    def say(self, lines: Sequence[Text]) -> int:
        """Show these; how many they are."""
        self.update(Text("\n").join(lines), layout=False)
        return len(lines)


class _Rows(Layout):
    """Puts what is in a dialog below each other, each as high as the dialog says."""

    name = "rows"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:  # noqa: ARG002
        assert isinstance(parent, Dialog)
        found, top = [], 0
        for child, height in zip(children, parent.heights, strict=False):
            found.append(WidgetPlacement(Region(0, top, size.width, height), NULL_OFFSET, NULL_SPACING, child))
            top += height
        return found


def in_dialog(widget: Widget | None) -> bool:
    """Whether it is, or is a part of, something that asks the person."""
    return widget is not None and any(isinstance(node, Dialog) for node in widget.ancestors_with_self)


class Dialog(Over, Generic[Answer]):
    """Asks the person something and waits for the answer. The focus goes back to where it was."""

    WIDTH: ClassVar[int] = 76
    """Cells, where the screen has them."""

    def __init__(self, when_left: Answer) -> None:
        """when_left: the answer of a person who leaves it without one."""
        super().__init__()
        self.heights: Sequence[int] = ()
        """Lines of each of its children."""
        self._rows = _Rows()
        self._when_left = when_left
        self._waits: asyncio.Future[Answer] | None = None
        self._before: Widget | None = None

    @property
    def layout(self) -> Layout:
        return self._rows

    @abstractmethod
    def arranged(self, room: Size) -> Sequence[int]:
        """Write what it says into its children, on lines of that width; the lines of each child. What there is no room
        for is not seen."""

    def fit(self) -> None:
        """Take the room that it needs, and that there is."""
        columns, lines = self.screen.size
        width = min(self.WIDTH, columns * 96 // 100)
        self.heights = self.arranged(Size(max(1, width - _FRAME.width), max(1, lines * 90 // 100 - _FRAME.height)))
        self._clear_arrangement_cache()
        self.styles.width, self.styles.height = width, sum(self.heights) + _FRAME.height

    async def answered(self, focus: Widget) -> Answer:
        """Come over the panes, and wait for the answer. One that waits already is left."""
        self.leave()
        self._waits = asyncio.get_running_loop().create_future()
        self._before = self.screen.focused
        self.fit()
        self.come(focus)
        return await self._waits

    def answer(self, answer: Answer) -> None:
        """Go, and give that answer to who asked."""
        waits, self._waits = self._waits, None
        if waits is None:
            return  # a second enter, when the first was the answer
        self.go()
        self.screen.set_focus(self._before, scroll_visible=False)
        if not waits.done():
            waits.set_result(answer)

    def leave(self) -> None:
        """Without an answer."""
        self.answer(self._when_left)

    def action_leave(self) -> None:
        self.leave()
