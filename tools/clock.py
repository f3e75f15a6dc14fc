"""Which of two clocks is believed.

The worker's inner clock is precise but the kernel shares its process; the judge's outer clock can't be reached but
includes the round trip of a request. Each sample counts as the larger of the inner reading and of the outer reading
less the longest usual round trip: an honest worker gets its own precise reading, a lying one gains at most the spread
of the round trip. A lie beyond that spread is seen in the medians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SHARE = 0.05
"""Fraction of a call by which the clocks' medians may differ: threads that end or wake late take the core from the
judge, and stolen time hits the outer span a little more often than the inner one."""
SPREAD_FACTOR = 4.0
LEAST_SLACK = 60e-6
"""Seconds of difference that are always allowed: waking two processes on a busy virtual machine."""


@dataclass(frozen=True)
class Reading:
    """One call by both clocks, in seconds."""

    inner: float
    outer: float


@dataclass(frozen=True)
class Clocks:
    """The readings of one worker on one workload, with the round trips measured around them."""

    readings: tuple[Reading, ...]
    round_trips: tuple[float, ...]

    @property
    def seconds(self) -> list[float]:
        """The accepted time of each reading."""
        usual = float(np.quantile(self.round_trips, 0.9))
        return [max(reading.inner, reading.outer - usual) for reading in self.readings]

    @property
    def gap(self) -> float:
        """Median of what the outer clock saw beyond the inner one and the median round trip."""
        gaps = [reading.outer - reading.inner for reading in self.readings]
        return float(np.median(gaps) - np.median(self.round_trips))

    @property
    def slack(self) -> float:
        """The largest `gap` of an honest worker."""
        inner = float(np.median([reading.inner for reading in self.readings]))
        low, high = np.quantile(self.round_trips, [0.1, 0.9])
        return max(LEAST_SLACK, SHARE * inner, SPREAD_FACTOR * float(high - low))

    def disagreement(self) -> str | None:
        """Why the two clocks can't both be right, in one sentence; None when they agree."""
        impossible = sum(reading.inner > reading.outer for reading in self.readings)
        if impossible > len(self.readings) // 2:
            return "the worker's clock reads more than the judge's clock around it"
        if min(reading.inner for reading in self.readings) < 0:
            return "the worker's clock reads a negative time"
        if self.gap > self.slack:
            inner = float(np.median([reading.inner for reading in self.readings]))
            return (
                f"the worker's clock reads {inner * 1e6:.1f} us a call, the judge's clock "
                f"{(inner + self.gap) * 1e6:.1f} us, and they may differ by {self.slack * 1e6:.1f} us"
            )
        return None


def pooled(parts: Sequence[Clocks]) -> list[float]:
    """Accepted times of several sessions, each by its own round trips."""
    return [seconds for part in parts for seconds in part.seconds]
