"""Which of two clocks is believed.

The worker's inner clock is precise but the kernel shares its process; the judge's outer clock can't be reached but
includes the round trip of a request. Each sample counts as the larger of the inner reading and of the outer reading
less what is forgiven for a round trip: an honest worker gets its own precise reading, a lying one gains at most what is
forgiven too much, some tens of microseconds. Round trips are those of a trusted worker, since a kernel could make its
own as slow as it likes, and the quick ones count, since on a busy machine the others are milliseconds: there honest
times read too long, never too short. A clock that always lies shows in the call that the machine disturbed least; one
that lies now and then gains nothing and is left alone, since a busy machine looks the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tools.nvml import Clock

QUICK = 0.1
"""The quantile of the round trips that counts as quick."""
OFTEN, RARELY = 12, 8
"""Calls with a round trip each, and of how many later ones one has it, where the judge's clock is coarse."""
SHARE = 0.05
"""Fraction of a call by which the clocks may differ beyond what is forgiven."""
ROW_SECONDS = 5e-3
"""A row of calls is to take so long: then its round trip is as small a share of it."""
LEAST_IN_A_ROW, MOST_IN_A_ROW = 4, 200
HELD_FACTOR, HELD_SECONDS = 1.1, 2e-6
"""Of a call's own time, and added to it: the most of a call in a row that was queued before it began. Its caches are
as cold as a single call's, or warmer, and between two calls the device starts anew a few times."""
FREE_FACTOR = 2.5
"""The same of a row that is launched while it runs: launches take longer than what they launch where that is little.
Added to it is what an allowance grants for launching."""


@dataclass(frozen=True)
class Allowance:
    """What a call's round trip may take: a quick trusted one times the factor plus the seconds. A call's caches are
    cold, an empty request's are not."""

    factor: float = 2.0
    seconds: float = 30e-6
    coarse: bool = False
    """The judge's clock is too coarse to correct single calls: the inner reading counts where the medians agree."""
    slack: float = 60e-6
    """Seconds by which the clocks may always differ: waking two processes on a virtual machine."""
    launching: float = 60e-6
    """Seconds that the host may take for a call whose work on the device takes none."""

    def samples_round_trip(self, call: int) -> bool:
        """Whether one is measured before the call of this number, from 1 on. Where only the median counts, the first
        ones and some of the later ones do: they take as long as a call."""
        return not self.coarse or call <= OFTEN or call % RARELY == 0


@dataclass(frozen=True)
class Reading:
    """One call by both clocks, in seconds."""

    inner: float
    outer: float
    worked: float | None = None
    """Processor time of the thread that called the kernel: no call is shorter, however busy the machine. None where the
    system does not say."""
    device: Clock | None = None
    """The device's own clock as the answer came; None where it has none that can be read."""
    repeats: int = 0
    """Times that the call was made again, since the device had been throttled or had stood idle amid its launches."""

    @property
    def throttled(self) -> bool:
        """Whether the device was, and stayed so however often the call was repeated."""
        return self.device is not None and self.device.slowed


@dataclass(frozen=True)
class Clocks:
    """The readings of one worker on one workload, with a trusted worker's round trips measured around them."""

    readings: tuple[Reading, ...]
    round_trips: tuple[float, ...]
    allowance: Allowance = Allowance()

    @property
    def forgiven(self) -> float:
        """Seconds of the outer span that count as the round trip's."""
        if self.allowance.coarse:
            return float(np.median(self.round_trips))
        return self.allowance.factor * float(np.quantile(self.round_trips, QUICK)) + self.allowance.seconds

    @property
    def seconds(self) -> list[float]:
        """The accepted time of each reading."""
        if self.allowance.coarse:
            return [reading.inner for reading in self.readings]
        forgiven = self.forgiven
        return [max(reading.inner, reading.outer - forgiven) for reading in self.readings]

    @property
    def gap(self) -> float:
        """What the outer clock saw beyond the inner one and the round trip: in the least disturbed call, or in the
        median one where it is coarse."""
        if self.allowance.coarse:
            return float(np.median([reading.outer - reading.inner for reading in self.readings])) - self.forgiven
        return min(reading.outer - reading.inner for reading in self.readings) - self.forgiven

    @property
    def slack(self) -> float:
        """The largest `gap` of an honest worker."""
        inner = float(np.median([reading.inner for reading in self.readings]))
        return max(self.allowance.slack, SHARE * inner)

    @property
    def worked_longer(self) -> bool:
        """Whether in every call the calling thread worked for longer than the inner clock says that the call took: no
        other program can cause that."""
        return bool(self.readings) and all(
            reading.worked is not None and reading.worked - reading.inner > self.slack for reading in self.readings
        )

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


@dataclass(frozen=True)
class Rows:
    """Seconds a call in two rows of calls, by the judge's clock alone. They are what finds work that the worker's clock
    did not see and that is too short to show in single calls: on another stream, by a falsified event, on the host
    while the device was held."""

    calls: int
    held: float
    """With all of them queued before the first began, and where the device can do it with cold caches."""
    free: float
    """Launched as they ran."""

    def disagreement(self, inner: float, allowance: Allowance) -> str | None:
        """Why calls that take `inner` seconds by the worker's clock can't be these; its slack is for a whole row."""
        for words, seconds, most in (
            ("", self.held, HELD_FACTOR * inner + HELD_SECONDS),
            (", launching included", self.free, FREE_FACTOR * inner + allowance.launching),
        ):
            if seconds > most + allowance.slack / self.calls:
                return (
                    f"the worker's clock reads {inner * 1e6:.1f} us a call, and {self.calls} calls in a row take "
                    f"{seconds * 1e6:.1f} us each{words} by the judge's clock"
                )
        return None


def calls_in_a_row(inner: float) -> int:
    """How many calls of so many seconds make a row; 0 where single ones are nearly as long."""
    calls = min(int(ROW_SECONDS / inner), MOST_IN_A_ROW) if inner > 0 else MOST_IN_A_ROW
    return calls if calls >= LEAST_IN_A_ROW else 0


def pooled(parts: Sequence[Clocks]) -> list[float]:
    """Accepted times of several sessions, each by its own round trips."""
    return [seconds for part in parts for seconds in part.seconds]
