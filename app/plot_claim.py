"""The claim as a picture: how long one call takes, the best beside everything that it is held against."""

from __future__ import annotations

from collections.abc import Sequence

from app.plots import WIDTH, Scale, label, quoted, svg
from app.quantities import duration, percent, short, times
from app.report_claim import Subject

_LEFT, _RIGHT, _TOP, _ROW, _THICK = 150, 224, 10, 36, 20


def claim(subjects: Sequence[Subject]) -> str:
    """A bar each, all from zero on one linear scale, with the 95 % interval as a whisker; empty without subjects."""
    if not subjects:
        return ""
    longest = max([s.seconds for s in subjects] + [s.interval.high for s in subjects if s.interval is not None])
    x = Scale(0.0, longest * 1.02, _LEFT, WIDTH - _RIGHT, log=False)
    bottom = _TOP + _ROW * len(subjects)
    parts = []
    for value in x.ticks():
        at = x(value)
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{_TOP - 6}" y2="{bottom}"/>')
        parts.append(label(at, bottom + 16, short(value, "s"), "middle"))
    for place, subject in enumerate(subjects):
        parts.append(_bar(subject, x, _TOP + _ROW * place))
    told = "; ".join(_words(subject) for subject in subjects)
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    words = "time of one call (shorter is better)"
    axis = f'<text class="axis" x="{middle}" y="{bottom + 36}" text-anchor="middle">{words}</text>'
    return svg([*parts, axis], "", f"Time of one call: {told}", height=bottom + 46)


def _bar(subject: Subject, x: Scale, top: float) -> str:
    middle = top + _ROW / 2 - 4
    strong = " strong" if subject.style == "best" else ""
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
    called = quoted(_name(subject))
    name = f'<text class="name{strong}" x="{_LEFT - 10}" y="{middle + 4}" text-anchor="end">{called}</text>'
    bar = (
        f'<rect class="bar {subject.style}" x="{_LEFT}" y="{middle - _THICK / 2}" '
        f'width="{max(1.5, round(end - _LEFT, 1))}" height="{_THICK}"/>'
    )
    value = f'<text class="value{strong}" x="{reach + 8}" y="{middle + 4}">{quoted(_value(subject))}</text>'
    return f"<g><title>{quoted(_words(subject))}</title>{bar}{whisker}{name}{value}</g>"


def _name(subject: Subject) -> str:
    return subject.name if len(subject.name) <= 24 else f"{subject.name[:23]}…"


def _value(subject: Subject) -> str:
    time = duration(subject.seconds)
    if subject.ratio is None:
        return time
    if subject.style == "limit":
        return f"{time}, best is at {percent(subject.ratio)}"
    return f"{time}, best is {times(subject.ratio)} as fast"


def _words(subject: Subject) -> str:
    told = f"{subject.name}: {duration(subject.seconds)}"
    if subject.interval is not None:
        told += f" [{duration(subject.interval.low)}, {duration(subject.interval.high)}]"
    if subject.ratio is not None and subject.style != "limit":
        told += f", the best is {times(subject.ratio)} as fast"
        if subject.ratio_interval is not None:
            told += f" [{times(subject.ratio_interval.low)}, {times(subject.ratio_interval.high)}]"
    return told
