"""The report's pictures as inline SVG: times by attempt, the roofline, money by iteration.

Colours come from the page's stylesheet. Not covered: interaction beyond a tooltip on each point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.plot_frame import ROW, Frame, Scale, grid_x, grid_y, label, svg, thinned, tooltip, width_of, x_axis
from app.quantities import amount, duration, short

Mark = Literal["kept", "other", "rejected"]
_LINE = 15
"""Pixels from one line of words to the next."""
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


def progress(frame: Frame, points: Sequence[Point], levels: Sequence[Level]) -> str:
    """Time of every attempt, the best so far as a step line, rejected attempts in a lane of their own."""
    timed = [p.seconds for p in points if p.seconds is not None]
    values = timed + [level.seconds for level in levels]
    if not values:
        return ""
    log = max(values) > 4 * min(values)
    y = _vertical(frame, min(values), max(values), log)
    x = Scale(-0.5, max(len(points) - 0.5, 0.5), frame.left, frame.end, log=False)
    lane = frame.floor + 8
    parts = [grid_y(frame, y, [(t, short(t, "s")) for t in y.ticks()]), _attempt_axis(frame, x, points)]
    parts += (_levels_below if frame.is_slim else _levels_beside)(frame, levels, y)
    parts += [_best_line(points, x, y)]
    for index, point in enumerate(points):
        at = y(point.seconds) if point.seconds is not None else lane
        tip = tooltip(frame, point.label)
        parts.append(_mark(point, x(index), at, 1.0 if len(points) <= _CROWD else 0.7, tip))
    text = f"time of one call by attempt{', logarithmic scale' if log else ''}"
    below = ROW * len(levels) if frame.is_slim else 0
    return svg(frame, parts, text, f"Progress: {text}; {len(points)} attempts", frame.height + below)


def roofline(frame: Frame, spots: Sequence[Spot], bandwidth: float, peak: float | None) -> str:
    """Measured rates under the measured roofs, both axes logarithmic; `bandwidth` bytes/s, `peak` flop/s."""
    usable = [spot for spot in spots if spot.intensity > 0 and spot.rate > 0]
    if not usable or bandwidth <= 0:
        return ""
    ridge = peak / bandwidth if peak else None
    xs = [spot.intensity for spot in usable] + ([ridge] if ridge else [])
    x = Scale(min(xs) / 4, max(xs) * 4, frame.left, frame.end, log=True)
    top = peak or bandwidth * max(xs)
    y = _vertical(frame, min(spot.rate for spot in usable), top, log=True)
    ticks = [(t, f"{t:g}") for t in x.ticks()]
    parts = [
        grid_y(frame, y, [(t, short(t, "")) for t in y.ticks()]),
        grid_x(frame, x, ticks, "floating-point operations per byte moved"),
    ]
    parts += _roof(frame, x, y, bandwidth, peak)
    parts += _spots(frame, usable, x, y)
    title = "Roofline: measured rates under the measured bandwidth and peak"
    return svg(frame, parts, "floating-point operations per second", title)


def bars(
    frame: Frame,
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
    y = Scale(0.0, highest * 1.1, frame.floor, frame.top, log=False)
    x = Scale(-0.5, max(len(values) - 0.5, 0.5), frame.left, frame.end, log=False)
    width = max(1.0, min(40.0, 0.8 * (frame.end - frame.left) / len(values)))
    parts = [grid_y(frame, y, [(tick, tell(tick)) for tick in y.ticks()])]
    for index, (_, height, tip) in enumerate(values):
        left, top = round(x(index) - width / 2, 1), y(height)
        parts.append(
            f'<rect class="bar" x="{left}" y="{top}" width="{width:.1f}" height="{frame.floor - top:.1f}">'
            f"{tooltip(frame, tip)}</rect>"
        )
    names = thinned([(x(index), name) for index, (name, _, _) in enumerate(values)], frame.end - frame.left)
    parts += [label(at, frame.floor + 18, name, "middle") for at, name in names]
    return svg(frame, [*parts, x_axis(frame, x_label)], y_label, f"{y_label} by {x_label}")


def _vertical(frame: Frame, low: float, high: float, log: bool) -> Scale:
    if log:
        return Scale(low / 1.5, high * 1.4, frame.floor, frame.top, log=True)
    pad = (high - low) * 0.15 or high * 0.1
    return Scale(max(0.0, low - pad), high + pad, frame.floor, frame.top, log=False)


def _attempt_axis(frame: Frame, x: Scale, points: Sequence[Point]) -> str:
    names = thinned([(x(index), point.attempt) for index, point in enumerate(points)], frame.end - frame.left)
    lines = [label(at, frame.floor + 28, name, "middle") for at, name in names]
    if not frame.is_slim and any(point.mark == "rejected" for point in points):
        lines.append(label(frame.end + 8, frame.floor + 12, "rejected"))
    return "\n".join([*lines, x_axis(frame, "attempt")])


def _levels_beside(frame: Frame, levels: Sequence[Level], y: Scale) -> list[str]:
    """The lines and their labels of two rows; labels that would overlap, or reach what is below, are pushed apart."""
    drawn = sorted(levels, key=lambda level: y(level.seconds))
    places: list[float] = []
    for level in drawn:
        places.append(max(y(level.seconds) + 4, places[-1] + 2 * _LINE if places else -math.inf))
    lowest = float(frame.floor - _LINE)
    for place in reversed(range(len(places))):
        places[place] = min(places[place], lowest)
        lowest = places[place] - 2 * _LINE
    parts: list[str] = []
    for level, at in zip(drawn, places, strict=True):
        parts += [
            _level(level, frame.left, frame.end, y(level.seconds)),
            label(frame.end + 8, at, level.name, style=level.style),
            label(frame.end + 8, at + 14, duration(level.seconds), style=level.style),
        ]
    return parts


def _levels_below(frame: Frame, levels: Sequence[Level], y: Scale) -> list[str]:
    """The lines, and below the picture a row for each that says what it is."""
    parts: list[str] = []
    for place, level in enumerate(sorted(levels, key=lambda level: y(level.seconds))):
        row = frame.height + 8 + ROW * place
        text = f"{level.name}, {duration(level.seconds)}"
        parts += [
            _level(level, frame.left, frame.end, y(level.seconds)),
            _level(level, 4, frame.left - 8, row - 4),
            label(frame.left, row, text, style=level.style),
        ]
    return parts


def _level(level: Level, left: float, right: float, at: float) -> str:
    return f'<line class="level {level.style}" x1="{left}" x2="{right}" y1="{at}" y2="{at}"/>'


def _best_line(points: Sequence[Point], x: Scale, y: Scale) -> str:
    kept = [(index, p.seconds) for index, p in enumerate(points) if p.mark == "kept" and p.seconds is not None]
    if not kept:
        return ""
    path = f"M{x(kept[0][0])} {y(kept[0][1])}"
    for index, seconds in kept[1:]:
        path += f"H{x(index)}V{y(seconds)}"
    return f'<path class="best-line" d="{path}H{x(len(points) - 0.5)}"/>'


def _mark(point: Point, x: float, y: float, size: float, tip: str) -> str:
    if point.seconds is None:
        arm = round(4 * size, 1)
        cross = f"M{round(x - arm, 1)} {y - arm}l{2 * arm} {2 * arm}m0 {-2 * arm}l{-2 * arm} {2 * arm}"
        return f'<g class="mark rejected"><path d="{cross}"/>{tip}</g>'
    radius = round((5 if point.mark == "kept" else 3.5) * size, 2)
    return f'<circle class="mark {point.mark}" cx="{x}" cy="{y}" r="{radius}">{tip}</circle>'


def _roof(frame: Frame, x: Scale, y: Scale, bandwidth: float, peak: float | None) -> list[str]:
    right = x.high if peak is None else min(x.high, peak / bandwidth)
    start = max(x.low, y.low / bandwidth)
    path = f"M{x(start)} {y(start * bandwidth)}L{x(right)} {y(min(right * bandwidth, y.high))}"
    middle = math.sqrt(start * right)
    slope_x, slope_y, slope = x(middle), y(min(middle * bandwidth, y.high)), amount(bandwidth, "B/s")
    if slope_x - 12 - width_of(slope) > frame.left:
        labels = [label(slope_x - 12, slope_y - 8, slope, "end")]
    else:
        labels = [label(slope_x + 12, slope_y + 14, slope)]
    if peak is not None:
        path += f"H{frame.end}"
        flat = amount(peak, "FLOP/s")
        if frame.is_slim:
            labels.append(label(frame.end, y(peak) - 8, f"peak {flat}", "end"))
        else:
            labels += [label(frame.end + 8, y(peak) + 4, "peak"), label(frame.end + 8, y(peak) + 18, flat)]
    return [f'<path class="roof" d="{path}"/>', *labels]


def _spots(frame: Frame, spots: Sequence[Spot], x: Scale, y: Scale) -> list[str]:
    """The kernels, labelled to the right where there is room; labels that would overlap are pushed apart."""
    parts: list[str] = []
    taken: list[tuple[float, float]] = []
    for spot in sorted(spots, key=lambda spot: -spot.rate):
        px, py = x(spot.intensity), y(spot.rate)
        text_at = py + 4
        while any(abs(px - tx) < 150 and abs(text_at - ty) < 15 for tx, ty in taken):
            text_at += 3
        taken.append((px, text_at))
        fits = px + 10 + width_of(spot.name) < frame.width
        tip = tooltip(frame, f"{spot.name}: {amount(spot.rate, 'FLOP/s')}")
        parts += [
            f'<circle class="spot {spot.style}" cx="{px}" cy="{py}" r="5">{tip}</circle>',
            label(px + 10, text_at, spot.name) if fits else label(px - 10, text_at, spot.name, "end"),
        ]
    return parts
