"""What spares the session second layouts and drawings.

In Textual a widget of another size asks for one more layout, since what is in it may want room then, and a widget is
drawn at the next frame after it asked, when others are drawn already. Here everything has its place from the screen's
size alone, and what a key changes is drawn in one frame.
"""

from __future__ import annotations

from typing import Self

from textual.containers import Vertical
from textual.events import Blur, Focus
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.widget import Widget


class Prompt(Screen[None]):
    """A screen whose next frame has all that was asked for by then."""

    def __init__(self) -> None:
        super().__init__()
        self.soon: set[Widget] = set()
        """What has something to be drawn."""

    def _compositor_refresh(self) -> None:
        compositor = self._compositor
        # Of others than these the library believes that they are new. While it lays out, it can't be asked for them.
        compositor.update_widgets((self._dirty_widgets | self.soon) & compositor.visible_widgets.keys())
        self.soon.clear()
        seen = compositor.size.region  # what was to be drawn may lie outside since: the terminal became smaller
        compositor._dirty_regions = {part for dirty in compositor._dirty_regions if (part := seen.intersection(dirty))}
        super()._compositor_refresh()


def draw_soon(widget: Widget) -> None:
    """Draw in the next frame what that widget has to have drawn, not in the one after it."""
    if widget.is_attached and isinstance(widget.screen, Prompt):
        widget.screen.soon.add(widget)


def draw_below(widget: Widget) -> None:
    """Draw in the next frame what stands where that widget does. The library compares two layouts to know what is to be
    drawn; where the second was asked for in between, it finds no difference."""
    widget.screen._compositor._dirty_regions.add(widget.region)


class Placed(Widget):
    """Has a place that does not depend on its own size: another size asks for no further layout. As a further base of
    a class, since Textual takes the styles of the first base alone."""

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:  # noqa: ARG002
        draw_soon(self)
        return super()._size_updated(size, virtual_size, container_size, layout=False)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        draw_soon(self)
        return self


class Frame(Vertical, Placed):
    """A container whose children fill it."""


class Bar(ScrollBar, Placed):
    """A scroll bar."""


class Still(Widget):
    """Looks the same with the focus and without: neither its styles nor its drawing change with it."""

    def on_focus(self, event: Focus) -> None:
        event.prevent_default()
        self.has_focus = True

    def on_blur(self, event: Blur) -> None:
        event.prevent_default()
        self.has_focus = False

    def watch_has_focus(self, _has_focus: bool) -> None:
        pass


class Steady(ScrollView, Still):
    """Scrolls, and looks the same with the focus and without, since its pane shows where that is."""

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = Bar(vertical=True, name="vertical", thickness=self.scrollbar_size_vertical)
            self._vertical_scrollbar.display = False
            self.app._start_widget(self, self._vertical_scrollbar)
        return self._vertical_scrollbar

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:  # noqa: ARG002
        """The size of what is shown is known here alone; the layout's other idea of it would be news each time."""
        draw_soon(self)
        return super()._size_updated(size, self.virtual_size, container_size, layout)

    def watch_virtual_size(self, _before: Size, after: Size) -> None:
        self._scroll_update(after)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if not any(regions):
            regions = ()  # it scrolls where it has no place now: all of it is to be drawn once it has one
        super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        draw_soon(self)
        return self
