"""The report's pictures as inline SVG: times by attempt, the roofline, money by iteration.

Colours come from the page's stylesheet. Not covered: interaction beyond a tooltip on each point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from app.plain import one_line
from app.quantities import amount, duration, short

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 66, 132, 24, 56
Mark = Literal["kept", "other", "rejected"]
_CROWD = 80
"""Attempts from which marks are drawn smaller."""


@dataclass(frozen=True)
class Point:
    """One attempt of the progress plot. `seconds` is None for an attempt that has no time (rejected, unjudged)."""

    attempt: str
    mark: Mark
    seconds: float | None
    label: str
    """Tooltip, plain text."""


@dataclass(frozen=True)
class Level:
    """A horizontal line of the progress plot: the baseline, the limit."""

    name: str
    seconds: float
    style: Literal["baseline", "limit"]


@dataclass(frozen=True)
class Spot:
    """A kernel on the roofline: `intensity` flop/byte, `rate` flop/s."""

    name: str
    intensity: float
    rate: float
    style: Literal["start", "best", "baseline"]


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


def progress(points: Sequence[Point], levels: Sequence[Level]) -> str:
    """Time of every attempt, the best so far as a step line, rejected attempts in a lane of their own."""
    timed = [p.seconds for p in points if p.seconds is not None]
    values = timed + [level.seconds for level in levels]
    if not values:
        return ""
    log = max(values) > 4 * min(values)
    y = _vertical(min(values), max(values), log)
    x = Scale(-0.5, max(len(points) - 0.5, 0.5), LEFT, WIDTH - RIGHT, log=False)
    lane = HEIGHT - BOTTOM + 8
    parts = [grid_y(y, [(t, short(t, "s")) for t in y.ticks()]), _attempt_axis(x, points)]
    parts += _levels(levels, y)
    parts += [_best_line(points, x, y)]
    for index, point in enumerate(points):
        at = y(point.seconds) if point.seconds is not None else lane
        parts.append(_mark(point, x(index), at, 1.0 if len(points) <= _CROWD else 0.7))
    text = f"time of one call by attempt{', logarithmic scale' if log else ''}"
    return svg(parts, text, f"Progress: {text}; {len(points)} attempts")


def roofline(spots: Sequence[Spot], bandwidth: float, peak: float | None) -> str:
    """Measured rates under the measured roofs, both axes logarithmic; `bandwidth` bytes/s, `peak` flop/s."""
    usable = [spot for spot in spots if spot.intensity > 0 and spot.rate > 0]
    if not usable or bandwidth <= 0:
        return ""
    ridge = peak / bandwidth if peak else None
    xs = [spot.intensity for spot in usable] + ([ridge] if ridge else [])
    x = Scale(min(xs) / 4, max(xs) * 4, LEFT, WIDTH - RIGHT, log=True)
    top = peak or bandwidth * max(xs)
    y = _vertical(min(spot.rate for spot in usable), top, log=True)
    ticks = [(t, f"{t:g}") for t in x.ticks()]
    parts = [
        grid_y(y, [(t, short(t, "")) for t in y.ticks()]),
        grid_x(x, ticks, "floating-point operations per byte moved"),
    ]
    parts.append(_roof(x, y, bandwidth, peak))
    parts += _spots(usable, x, y)
    return svg(
        parts, "floating-point operations per second", "Roofline: measured rates under the measured bandwidth and peak"
    )


def bars(
    values: Sequence[tuple[str, float, str]],
    y_label: str,
    x_label: str,
    tell: Callable[[float], str] = lambda height: f"${height:.3g}",
) -> str:
    """One bar for each (name, height, tooltip), heights from zero; `tell` says a height, US dollars otherwise. Empty
    when all are zero."""
    highest = max((height for _, height, _ in values), default=0.0)
    if highest <= 0:
        return ""
    y = Scale(0.0, highest * 1.1, HEIGHT - BOTTOM, TOP, log=False)
    x = Scale(-0.5, max(len(values) - 0.5, 0.5), LEFT, WIDTH - RIGHT, log=False)
    width = max(1.0, min(40.0, 0.8 * (WIDTH - RIGHT - LEFT) / len(values)))
    parts = [grid_y(y, [(tick, tell(tick)) for tick in y.ticks()])]
    step = max(1, -(-len(values) // 20))
    for index, (name, height, tip) in enumerate(values):
        left, top = round(x(index) - width / 2, 1), y(height)
        parts.append(
            f'<rect class="bar" x="{left}" y="{top}" width="{width:.1f}" height="{HEIGHT - BOTTOM - top:.1f}">'
            f"<title>{quoted(tip)}</title></rect>"
        )
        if index % step == 0:
            parts.append(label(x(index), HEIGHT - BOTTOM + 18, name, "middle"))
    return svg([*parts, x_axis(x_label)], y_label, f"{y_label} by {x_label}")


def _vertical(low: float, high: float, log: bool) -> Scale:
    if log:
        return Scale(low / 1.5, high * 1.4, HEIGHT - BOTTOM, TOP, log=True)
    pad = (high - low) * 0.15 or high * 0.1
    return Scale(max(0.0, low - pad), high + pad, HEIGHT - BOTTOM, TOP, log=False)


def svg(parts: Sequence[str], y_label: str, title: str, height: int = HEIGHT) -> str:
    """The whole picture; `title` is what it is called where it can't be seen."""
    body = "\n".join(part for part in parts if part)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{quoted(title)}">\n'
        f"<title>{quoted(title)}</title>\n{body}\n"
        f'<text class="axis" x="{LEFT}" y="{TOP - 10}">{quoted(y_label)}</text>\n</svg>'
    )


def grid_y(y: Scale, ticks: Sequence[tuple[float, str]]) -> str:
    """Horizontal lines with their labels to the left."""
    lines = []
    for value, text in ticks:
        at = y(value)
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        lines.append(label(LEFT - 8, at + 4, text, "end"))
    return "\n".join(lines)


def grid_x(x: Scale, ticks: Sequence[tuple[float, str]], name: str) -> str:
    """Vertical lines with their labels below, and what is along the axis."""
    lines = []
    for value, text in ticks:
        lines.append(f'<line class="grid" x1="{x(value)}" x2="{x(value)}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        lines.append(label(x(value), HEIGHT - BOTTOM + 18, text.strip(), "middle"))
    lines.append(x_axis(name))
    return "\n".join(lines)


def x_axis(name: str) -> str:
    """What is along the horizontal axis, below it."""
    middle = (LEFT + WIDTH - RIGHT) / 2
    return f'<text class="axis" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{quoted(name)}</text>'


def _attempt_axis(x: Scale, points: Sequence[Point]) -> str:
    step = max(1, -(-len(points) // 10))
    lines = [label(x(i), HEIGHT - BOTTOM + 28, points[i].attempt, "middle") for i in range(0, len(points), step)]
    if any(point.mark == "rejected" for point in points):
        lines.append(label(WIDTH - RIGHT + 8, HEIGHT - BOTTOM + 12, "rejected"))
    return "\n".join([*lines, x_axis("attempt")])


def _levels(levels: Sequence[Level], y: Scale) -> list[str]:
    """The lines and their labels; labels that would overlap are pushed apart."""
    parts: list[str] = []
    last = -math.inf
    for level in sorted(levels, key=lambda level: y(level.seconds)):
        at = y(level.seconds)
        text_at = max(at + 4, last + 30)
        last = text_at
        parts.append(
            f'<line class="level {level.style}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
            + label(WIDTH - RIGHT + 8, text_at, level.name, style=level.style)
            + label(WIDTH - RIGHT + 8, text_at + 14, duration(level.seconds), style=level.style)
        )
    return parts


def _best_line(points: Sequence[Point], x: Scale, y: Scale) -> str:
    kept = [(index, p.seconds) for index, p in enumerate(points) if p.mark == "kept" and p.seconds is not None]
    if not kept:
        return ""
    path = f"M{x(kept[0][0])} {y(kept[0][1])}"
    for index, seconds in kept[1:]:
        path += f"H{x(index)}V{y(seconds)}"
    return f'<path class="best-line" d="{path}H{x(len(points) - 0.5)}"/>'


def _mark(point: Point, x: float, y: float, size: float) -> str:
    tip = f"<title>{quoted(point.label)}</title>"
    if point.seconds is None:
        arm = round(4 * size, 1)
        cross = f"M{round(x - arm, 1)} {y - arm}l{2 * arm} {2 * arm}m0 {-2 * arm}l{-2 * arm} {2 * arm}"
        return f'<g class="mark rejected"><path d="{cross}"/>{tip}</g>'
    radius = round((5 if point.mark == "kept" else 3.5) * size, 2)
    return f'<circle class="mark {point.mark}" cx="{x}" cy="{y}" r="{radius}">{tip}</circle>'


def _roof(x: Scale, y: Scale, bandwidth: float, peak: float | None) -> str:
    right = x.high if peak is None else min(x.high, peak / bandwidth)
    start = max(x.low, y.low / bandwidth)
    path = f"M{x(start)} {y(start * bandwidth)}L{x(right)} {y(min(right * bandwidth, y.high))}"
    middle = math.sqrt(start * right)
    labels = label(x(middle) - 12, y(min(middle * bandwidth, y.high)) - 8, amount(bandwidth, "B/s"), "end")
    if peak is not None:
        path += f"H{WIDTH - RIGHT}"
        labels += label(WIDTH - RIGHT + 8, y(peak) + 4, "peak")
        labels += label(WIDTH - RIGHT + 8, y(peak) + 18, amount(peak, "FLOP/s"))
    return f'<path class="roof" d="{path}"/>{labels}'


def _spots(spots: Sequence[Spot], x: Scale, y: Scale) -> list[str]:
    """The kernels, labelled to the right; labels that would overlap are pushed apart."""
    parts: list[str] = []
    taken: list[tuple[float, float]] = []
    for spot in sorted(spots, key=lambda spot: -spot.rate):
        px, py = x(spot.intensity), y(spot.rate)
        text_at = py + 4
        while any(abs(px - tx) < 150 and abs(text_at - ty) < 15 for tx, ty in taken):
            text_at += 3
        taken.append((px, text_at))
        tip = f"{spot.name}: {amount(spot.rate, 'FLOP/s')}"
        parts.append(
            f'<circle class="spot {spot.style}" cx="{px}" cy="{py}" r="5"><title>{quoted(tip)}</title></circle>'
            + label(px + 10, text_at, spot.name)
        )
    return parts


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
