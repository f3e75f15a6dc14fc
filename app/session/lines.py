"""A scrolling block of styled lines, drawn line by line: the body of every pane, fast however long it is.

What was drawn is kept, and only rows that changed are drawn again.

All that is shown in a session comes through `clean`: control characters, escape sequences and marks that turn the
direction of writing are taken out, tabs become spaces, and a line of a megabyte is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region, Size
from textual.strip import Strip

from app.plain import blanked, printable
from app.session.steady import Steady

Paint: TypeAlias = Callable[[Text], Text]
LONGEST: Final = 1_000
"""Characters of a line that are shown."""
MOST: Final = 20_000
"""Lines that are kept; of more the oldest give way."""
DRAWN: Final = 2_000
"""Lines whose drawing is kept."""


def clean(text: str, longest: int = LONGEST) -> str:
    """One line of anybody's text, harmless for a terminal."""
    line = printable(text[: 4 * longest]).replace("\n", " ").expandtabs(4)
    if len(line) <= longest and len(text) <= 4 * longest:
        return line
    return f"{line[:longest]}… ({len(text):,} characters)"


def harmless(line: Text) -> Text:
    """The last look before a line is drawn: what nobody cleaned is blank."""
    plain = blanked(line.plain)
    if plain != line.plain:
        line = line.copy()
        line.plain = plain
    return line


def brief(text: str, longest: int) -> str:
    """The same, cut with a sign and no count."""
    line = clean(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def rows(text: str, style: str = "", longest: int = LONGEST) -> list[Text]:
    """The lines of a text."""
    return [Text(clean(row, longest), style=style) for row in text.split("\n")]


def folded(text: str, width: int, style: str = "", indent: str = "") -> list[Text]:
    """A text as lines of at most `width` cells, broken between words where that goes; later ones are set in."""
    found: list[Text] = []
    for row in text.split("\n"):
        whole = clean(row, 20 * LONGEST)
        words = whole.lstrip(" ")
        line = " " * min(len(whole) - len(words), width // 2)
        for word in words.split(" "):
            room = width - cell_len(indent) if found or line else width
            for piece in _pieces(word, max(8, room)):
                if line.strip() and cell_len(line) + 1 + cell_len(piece) > max(8, room):
                    found.append(Text((indent if found else "") + line, style=style))
                    line = piece
                else:
                    line = f"{line} {piece}" if line.strip() else line + piece
        found.append(Text((indent if found else "") + line, style=style))
    return found


def _pieces(word: str, width: int) -> list[str]:
    """A word that is wider than a line, in parts."""
    from rich.cells import chop_cells

    return [word] if cell_len(word) <= width else chop_cells(word, width)


class Lines(Steady, can_focus=True):
    """Lines of text. Follows its end while it was there (`follows`), and keeps its place otherwise."""

    DEFAULT_CSS = """
    Lines { height: 1fr; width: 1fr; background: $background; overflow: scroll scroll; }
    Lines { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
    """
    ALLOW_SELECT = False

    def __init__(self, *, follows: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Text] = []
        self._paint: Paint | None = None
        self._widest = 0
        self._strips: dict[int, Strip] = {}
        """What was drawn, by line; before it is cut to the width."""
        self._style = Style()
        self._follows = follows
        self._at_end = True

    @property
    def lines(self) -> Sequence[Text]:
        """What is shown, all of it."""
        return self._lines

    def show(self, lines: Sequence[Text], paint: Paint | None = None) -> None:
        """Show these lines instead; the place is kept where it is still there. paint: colours a line, which is done for
        those alone that are seen."""
        before, painter = self._lines, self._paint
        self._lines, self._paint = list(lines[-MOST:]), paint
        if painter is not paint or len(before) != len(self._lines):
            self._strips.clear()
            self._measure()
            return
        changed = [n for n, (old, new) in enumerate(zip(before, self._lines, strict=True)) if not _same(old, new)]
        for place in changed:
            self._strips.pop(place, None)
        widest = max((line.cell_len for line in self._lines), default=0)
        if widest != self._widest or len(changed) > self.size.height:
            self._measure()
            return
        for place in changed:
            self.refresh_line(place)

    def _measure(self) -> None:
        self._widest = max((line.cell_len for line in self._lines), default=0)
        self._resized()

    def add(self, lines: Sequence[Text]) -> None:
        """Show these lines below the others."""
        if not lines:
            return
        self._lines.extend(lines)
        if len(self._lines) > MOST + 1_000:
            del self._lines[:-MOST]
            self._strips.clear()
        self._widest = max(self._widest, *(line.cell_len for line in lines))
        self._resized()

    def _resized(self) -> None:
        follow = self._follows and self._at_end
        size = Size(self._widest, len(self._lines))
        self.set_reactive(Lines.virtual_size, size)  # as a change of layout it would cost all panes a drawing
        self._scroll_update(size)
        if follow:
            self._go_to_end()
        self.refresh()

    def _go_to_end(self) -> None:
        self.scroll_end(animate=False, immediate=True, x_axis=False)
        self._at_end = True

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        at_end = self._follows and self._at_end
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        if changed and at_end:
            self._go_to_end()
        return changed

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._at_end = new_value >= self.max_scroll_y - 1

    def go_to(self, line: int) -> None:
        """Bring a line into view, some lines from the top."""
        height = max(1, self.scrollable_content_region.height)
        self.scroll_to_region(Region(0, max(0, line - height // 3), 1, height), animate=False, x_axis=False)

    def render_lines(self, crop: Region) -> list[Strip]:
        style = self.rich_style  # the same for all lines, and dear
        if style != self._style or len(self._strips) > DRAWN:
            self._style = style
            self._strips.clear()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        width, place = self.size.width, top + y
        if place >= len(self._lines):
            return Strip.blank(width, self._style)
        if place not in self._strips:
            self._strips[place] = self._drawn(self._lines[place])
        return self._strips[place].crop_extend(left, left + width, self._style)

    def _drawn(self, line: Text) -> Strip:
        style = self._style
        segments = harmless(line if self._paint is None else self._paint(line)).render(self.app.console)
        return Strip([Segment(s.text, style + s.style if isinstance(s.style, Style) else style) for s in segments])


def _same(old: Text, new: Text) -> bool:
    """Whether both look the same; Text's own comparison leaves its style out."""
    return old is new or (old == new and old.style == new.style)
