"""How long a run had been at work at a moment, by its events: the run's own clock, read at any time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from agents.wishes import Wishes
from app.log_lines import time_of
from memory.files import Json

_BEGINS: Final = ("run_started", "run_resumed")
"""A process begins. Opening the task is no time at work, nor is judging the starting kernel."""
_OVER: Final = ("run_ended", "run_failed", "run_paused")
_TIE: Final = 1e-3
"""Seconds by which an event's written time may be rounded."""


@dataclass(frozen=True)
class _Knot:
    """An event: when it was told (Unix time), what the clock showed, and whether it ran on from there."""

    when: float
    counted: float
    runs: bool
    begins: bool
    elapsed: float | None
    """What the event itself says of the clock."""


class WorkTime:
    """How long a run had been at work at a moment. The clock stands while no process works on the run and while it
    waits for a person.

    Where an event gives `elapsed`, that is the time; others are counted back from the next such event, since a process
    that goes on after a kill takes the clock up where it was last told. What the kill cost is on no clock.
    """

    def __init__(self, events: Iterable[Json]) -> None:
        self._knots = _knots(events)
        self._worked = _told(self._knots)

    @property
    def total(self) -> float:
        return self._worked[-1] if self._worked else 0.0

    def at(self, moment: float) -> float | None:
        """Seconds at work by that Unix time; None where no event tells."""
        place = next((i for i in reversed(range(len(self._knots))) if self._knots[i].when <= moment + _TIE), None)
        if place is None:
            return None
        knot, worked = self._knots[place], self._worked[place]
        if not knot.runs:
            return worked
        if place + 1 == len(self._knots):
            return worked + max(0.0, moment - knot.when)
        left = self._knots[place + 1].when - moment
        return min(max(worked, self._worked[place + 1] - left), self._worked[place + 1])


def _knots(events: Iterable[Json]) -> list[_Knot]:
    """The clock as it is known by what was done and waited for alone."""
    knots: list[_Knot] = []
    wishes, has_begun, is_open = Wishes(), False, False
    for event in events:
        kind, begins = event["event"], event["event"] in _BEGINS
        wishes.take(event)
        if kind == "stopping" or (kind == "steered" and event.get("action") == "stop"):
            wishes.waiting = None  # it waits for no word any more
        has_begun = has_begun or kind == "iteration_started"
        is_open = has_begun and (is_open or kind in ("task_opened", "iteration_started"))
        is_open = is_open and not begins and kind not in _OVER
        when = _unix(time_of(event))
        if when is None:
            continue
        counted = 0.0
        if knots:
            before = knots[-1]
            if begins and before.runs:
                before = knots[-1] = replace(before, runs=False)
            counted = before.counted + (max(0.0, when - before.when) if before.runs else 0.0)
        runs = is_open and not wishes.paused and wishes.waiting is None
        knots.append(_Knot(when, counted, runs, begins, _number(event.get("elapsed"))))
    return knots


def _told(knots: Sequence[_Knot]) -> list[float]:
    """Seconds at work at each: what the events say of it, and between them counted back from the next that does."""
    worked: list[float] = []
    told, since, first = 0.0, 0.0, 0
    for place, knot in enumerate(knots):
        if knot.begins:
            since = knot.counted
        if knot.elapsed is None and place + 1 < len(knots):
            continue
        now = told + knot.counted - since if knot.elapsed is None else max(told, knot.elapsed)
        worked += [max(told, now - (knot.counted - each.counted)) for each in knots[first : place + 1]]
        told, since, first = now, knot.counted, place + 1
    return worked


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _unix(when: datetime | None) -> float | None:
    return when.timestamp() if when is not None else None
