"""What pictures of a report are drawn in: a frame with its margins, scales, axes and texts, as inline SVG.

Each picture is drawn twice, since words can't be scaled down with it: broad for a screen and paper, slim for a phone.
The page's stylesheet shows one of them and gives the colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal

from app.plain import one_line

_CHARACTER: Final = 7.0
"""Width of a character, in pixels of a picture: rather too much than too little."""
_GAP: Final = 10.0
ROW: Final = 18
"""Height of a row of words below a picture."""


@dataclass(frozen=True)
class Frame:
    """A picture's size and margins. A slim one has no room for words beside it, and no tooltips: nothing hovers over a
    phone."""

    kind: Literal["broad", "slim"]
    width: int
    height: int
    left: int
    right: int
    top: int = 24
    bottom: int = 56

    @property
    def is_slim(self) -> bool:
        return self.kind == "slim"

    @property
    def end(self) -> int:
        """Where the plot ends to the right."""
        return self.width - self.right

    @property
    def floor(self) -> int:
        """Where the plot ends below."""
        return self.height - self.bottom


BROAD: Final = Frame("broad", 760, 340, 66, 132)
SLIM: Final = Frame("slim", 360, 300, 56, 12)


def pictures(draw: Callable[[Frame], str]) -> str:
    """A picture in both frames; empty when there is nothing to draw."""
    broad = draw(BROAD)
    return f"{broad}\n{draw(SLIM)}" if broad else ""


@dataclass(frozen=True)
class Scale:
    """Maps values to pixels, linearly or by logarithm."""

    low: float
    high: float
    first: float
    last: float
    log: bool

    def __call__(self, value: float) -> float:
        low, high, x = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return round(self.first + (x - low) / (high - low) * (self.last - self.first), 1)

    def ticks(self) -> list[float]:
        return _log_ticks(self.low, self.high) if self.log else _linear_ticks(self.low, self.high)


def svg(frame: Frame, parts: Sequence[str], y_label: str, title: str, height: int | None = None) -> str:
    """The whole picture, of that height where it is another than the frame's; `title` is what it is called where it
    can't be seen."""
    body = "\n".join(part for part in parts if part)
    axis = f'\n<text class="axis" x="{frame.left}" y="{frame.top - 10}">{quoted(y_label)}</text>' if y_label else ""
    return (
        f'<svg class="{frame.kind}" viewBox="0 0 {frame.width} {height or frame.height}" role="img" '
        f'aria-label="{quoted(title)}">\n<title>{quoted(title)}</title>\n{body}{axis}\n</svg>'
    )


def tooltip(frame: Frame, text: str) -> str:
    return "" if frame.is_slim else f"<title>{quoted(text)}</title>"


def grid_y(frame: Frame, y: Scale, ticks: Sequence[tuple[float, str]]) -> str:
    """Horizontal lines with their labels to the left."""
    lines = []
    for value, text in ticks:
        at = y(value)
        lines.append(f'<line class="grid" x1="{frame.left}" x2="{frame.end}" y1="{at}" y2="{at}"/>')
        lines.append(label(frame.left - 8, at + 4, text, "end"))
    return "\n".join(lines)


def grid_x(frame: Frame, x: Scale, ticks: Sequence[tuple[float, str]], name: str) -> str:
    """Vertical lines with their labels below, as many as have room, and what is along the axis."""
    lines = []
    for value, text in thinned(ticks, frame.end - frame.left):
        lines.append(f'<line class="grid" x1="{x(value)}" x2="{x(value)}" y1="{frame.top}" y2="{frame.floor}"/>')
        lines.append(label(x(value), frame.floor + 18, text.strip(), "middle"))
    lines.append(x_axis(frame, name))
    return "\n".join(lines)


def x_axis(frame: Frame, name: str) -> str:
    """What is along the horizontal axis, below it."""
    middle = (frame.left + frame.end) / 2
    return f'<text class="axis" x="{middle}" y="{frame.height - 8}" text-anchor="middle">{quoted(name)}</text>'


def thinned(ticks: Sequence[tuple[float, str]], room: float) -> Sequence[tuple[float, str]]:
    """Every one, or every second, third and so on, so that their texts have room beside each other."""
    widest = max((width_of(text) for _, text in ticks), default=0.0) + _GAP
    return ticks[:: max(1, math.ceil(len(ticks) * widest / room))]


def width_of(text: str) -> float:
    """About how many pixels of a picture a text takes."""
    return _CHARACTER * len(text)


def label(x: float, y: float, text: str, anchor: str = "start", style: str = "") -> str:
    """A text in the picture."""
    kind = f"tick {style}".strip()
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{quoted(text)}</text>'


def quoted(text: str) -> str:
    """Text that others may have written, as it can stand in a picture or an attribute of it."""
    return escape(one_line(text))


def _linear_ticks(low: float, high: float) -> list[float]:
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    first = math.ceil(low / step)
    return [k * step for k in range(first, math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 between them where there is room for them."""
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades < 2.5 else (1,)
    stride = max(1, math.ceil(decades / 6))
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [m * 10.0**e for e in range(first, last + 1, stride) for m in steps]
    return [tick for tick in ticks if low <= tick <= high]
