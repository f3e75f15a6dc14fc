"""The claim as a picture: how long one call takes, the best beside everything that it is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.plot_frame import Frame, Scale, label, quoted, svg, thinned, tooltip
from app.quantities import duration, percent, short, times
from app.report_claim import Subject

_TOP: Final = 10
_THICK: Final = 20


@dataclass(frozen=True)
class _Rows:
    """How bars lie in a frame: each in a row, its words beside it, or above it in a slim one."""

    left: int
    right: int
    row: int
    bar: int
    """How far below the row's top a bar's middle is."""
    longest_name: int
    """Characters."""


_ROWS: Final = {"broad": _Rows(150, 224, 36, 14, 24), "slim": _Rows(8, 16, 50, 29, 20)}


def claim(frame: Frame, subjects: Sequence[Subject]) -> str:
    """A bar each, all from zero on one linear scale, with the 95 % interval as a whisker; empty without subjects."""
    if not subjects:
        return ""
    rows = _ROWS[frame.kind]
    longest = max([s.seconds for s in subjects] + [s.interval.high for s in subjects if s.interval is not None])
    x = Scale(0.0, longest * 1.02, rows.left, frame.width - rows.right, log=False)
    bottom = _TOP + rows.row * len(subjects)
    parts = []
    for value, text in thinned([(value, short(value, "s")) for value in x.ticks()], x.last - x.first):
        at = x(value)
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{_TOP - 6}" y2="{bottom}"/>')
        parts.append(label(at, bottom + 16, text, "middle" if at > 20 else "start"))
    for place, subject in enumerate(subjects):
        parts.append(_bar(frame, rows, subject, x, _TOP + rows.row * place))
    told = "; ".join(_words(subject) for subject in subjects)
    words = "time of one call (shorter is better)"
    axis = f'<text class="axis" x="{(x.first + x.last) / 2}" y="{bottom + 36}" text-anchor="middle">{words}</text>'
    return svg(frame, [*parts, axis], "", f"Time of one call: {told}", height=bottom + 46)


def _bar(frame: Frame, rows: _Rows, subject: Subject, x: Scale, top: float) -> str:
    middle = top + rows.bar
    end = x(subject.seconds)
    whisker = ""
    reach = end
    if subject.interval is not None:
        low, reach = x(subject.interval.low), max(end, x(subject.interval.high))
        whisker = (
            f'<path class="whisker" d="M{low} {middle}H{reach}M{low} {middle - 5}v10M{reach} {middle - 5}v10"/>'
            if reach - low >= 1
            else ""
        )
    bar = (
        f'<rect class="bar {subject.style}" x="{rows.left}" y="{middle - _THICK / 2}" '
        f'width="{max(1.5, round(end - rows.left, 1))}" height="{_THICK}"/>'
    )
    words = _words_above(frame, rows, subject, top + 13) if frame.is_slim else _beside(rows, subject, reach, middle + 4)
    return f"<g>{tooltip(frame, _words(subject))}{bar}{whisker}{words}</g>"


def _beside(rows: _Rows, subject: Subject, reach: float, at: float) -> str:
    name, value = _name(subject, rows), _value(subject)
    return _text(subject, "name", f'x="{rows.left - 10}" y="{at}" text-anchor="end"', name) + _text(
        subject, "value", f'x="{reach + 8}" y="{at}"', value
    )


def _words_above(frame: Frame, rows: _Rows, subject: Subject, at: float) -> str:
    name, value = _name(subject, rows), _value(subject)
    return _text(subject, "name", f'x="{rows.left}" y="{at}"', name) + _text(
        subject, "value", f'x="{frame.width - 4}" y="{at}" text-anchor="end"', value
    )


def _text(subject: Subject, kind: str, place: str, text: str) -> str:
    strong = " strong" if subject.style == "best" else ""
    return f'<text class="{kind}{strong}" {place}>{quoted(text)}</text>'


def _name(subject: Subject, rows: _Rows) -> str:
    longest = rows.longest_name
    return subject.name if len(subject.name) <= longest else f"{subject.name[: longest - 1]}…"


def _value(subject: Subject) -> str:
    time = duration(subject.seconds)
    if subject.ratio is None:
        return time
    if subject.style == "limit":
        return f"{time}, best is at {percent(subject.ratio)}"
    if subject.doubt:
        return f"{time}, {subject.doubt}"
    return f"{time}, best is {times(subject.ratio)} as fast"


def _words(subject: Subject) -> str:
    told = f"{subject.name}: {duration(subject.seconds)}"
    if subject.interval is not None:
        told += f" [{duration(subject.interval.low)}, {duration(subject.interval.high)}]"
    if subject.ratio is not None and subject.style != "limit":
        ratio = times(subject.ratio)
        told += f", {subject.doubt}: {ratio}" if subject.doubt else f", the best is {ratio} as fast"
        if subject.raced:
            told += f" {subject.raced}"
        elif subject.ratio_interval is not None:
            told += f" [{times(subject.ratio_interval.low)}, {times(subject.ratio_interval.high)}]"
    return told
