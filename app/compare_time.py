"""How long a run had been at work at a moment, by its events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from app.log_lines import time_of
from memory.files import Json


class WorkTime:
    """How long a run had been at work at a moment: pauses between its processes do not count."""

    def __init__(self, events: Iterable[Json]) -> None:
        self._known: list[tuple[float, float]] = []
        worked, last = 0.0, None
        for event in events:
            when = _unix(time_of(event))
            if when is None:
                continue
            if last is not None and event["event"] not in ("run_started", "run_resumed"):
                worked += max(0.0, when - last)
            last = when
            self._known.append((when, worked))

    @property
    def total(self) -> float:
        return self._known[-1][1] if self._known else 0.0

    def at(self, moment: float) -> float | None:
        """Seconds at work by that Unix time; None where no event tells."""
        by_then = None
        for when, worked in self._known:
            if when > moment + 1e-3:
                break
            by_then = worked + max(0.0, moment - when)
        return by_then


def _unix(when: datetime | None) -> float | None:
    return when.timestamp() if when is not None else None
