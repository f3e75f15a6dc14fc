"""How the best of several runs grew: one step line a run, by attempt or by time at work.

A line is told from the others by its letter at its end, by its colour and by its dashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.plot_frame import Frame, Scale, grid_x, grid_y, label, svg, tooltip

STYLES = 6
"""Colours with their dashes; then they begin anew."""
_LABEL = 80
"""Width of a line's label, in pixels."""


@dataclass(frozen=True)
class Curve:
    """One run's best so far: (x, ratio to the baseline) in the order of x; `end` is where its line ends."""

    letter: str
    name: str
    points: tuple[tuple[float, float], ...]
    end: float


def curves(frame: Frame, lines: Sequence[Curve], axis: str, tell: Callable[[float], str]) -> str:
    """The picture; `tell` says a value along the horizontal axis. Empty when no run has a point."""
    drawn = [(place, line) for place, line in enumerate(lines) if line.points]
    if not drawn:
        return ""
    ratios = [ratio for _, line in drawn for _, ratio in line.points]
    furthest = max(max(line.end, line.points[-1][0]) for _, line in drawn)
    frame = replace(frame, right=max(frame.right, _LABEL))
    x = Scale(0.0, furthest or 1.0, frame.left, frame.end, log=False)
    y = _vertical(frame, min([*ratios, 1.0]), max([*ratios, 1.0]))
    parts = [grid_y(frame, y, [(tick, f"{tick:g}x") for tick in y.ticks()])]
    parts.append(grid_x(frame, x, [(tick, tell(tick)) for tick in x.ticks()], axis))
    at = y(1.0)
    parts.append(f'<line class="level one" x1="{frame.left}" x2="{frame.end}" y1="{at}" y2="{at}"/>')
    parts += _lines(frame, drawn, x, y)
    told = "; ".join(f"{line.letter} {line.points[-1][1]:.2f}x" for _, line in drawn)
    title = f"Best so far against the baseline, by {axis}: {told}"
    return svg(frame, parts, "best so far against the baseline", title)


def _lines(frame: Frame, drawn: Sequence[tuple[int, Curve]], x: Scale, y: Scale) -> list[str]:
    parts: list[str] = []
    taken: list[tuple[float, float]] = []
    for place, line in sorted(drawn, key=lambda pair: -pair[1].points[-1][1]):
        first, ratio = line.points[0]
        path = f"M{x(first)} {y(ratio)}"
        for along, ratio in line.points[1:]:
            path += f"H{x(along)}V{y(ratio)}"
        end, height = x(max(line.end, line.points[-1][0])), y(ratio)
        text_at = height + 4
        while any(abs(end - tx) < _LABEL and abs(text_at - ty) < 15 for tx, ty in taken):
            text_at += 3
        taken.append((end, text_at))
        tip = tooltip(frame, f"{line.letter}: {line.name}, {line.points[-1][1]:.2f}x in the end")
        parts.append(
            f'<g>{tip}<path class="line c{place % STYLES}" d="{path}H{end}"/>'
            f'<circle class="end c{place % STYLES}" cx="{end}" cy="{height}" r="4"/>'
            f"{label(end + 9, text_at, f'{line.letter}  {line.points[-1][1]:.2f}x', style='name')}</g>"
        )
    return parts


def _vertical(frame: Frame, low: float, high: float) -> Scale:
    if high > 4 * low:
        return Scale(low / 1.2, high * 1.2, frame.floor, frame.top, log=True)
    pad = (high - low) * 0.12 or 0.1
    return Scale(max(0.0, low - pad), high + pad, frame.floor, frame.top, log=False)
