"""When a race ends: by its budget, by its rounds, or once its times are known closely. Nothing is timed for real."""

# ruff: noqa: ARG002 (a protocol names arguments that a stub does not need)

from __future__ import annotations

import itertools
import statistics
from typing import Any, cast

import numpy as np
import pytest

from tools.clock import OFTEN, RARELY, Allowance
from tools.content import Content, ContentSource
from tools.measure import DRIFT
from tools.race import SURE, Race, Terms
from tools.significance import median_half_width
from tools.timings import Session, sessions_that_count


class Steady:
    """A contestant whose calls vary by a fraction about a microsecond."""

    def __init__(self, spread: float) -> None:
        self.rng, self.spread, self.times = np.random.default_rng(5), spread, list[float]()

    def call(self, content: Content) -> None:
        self.times.append(1e-6 * (1 + self.spread * float(self.rng.standard_normal())))

    def seconds(self, workload: int) -> list[float]:
        return list(self.times)

    def drop_readings(self, workload: int | None = None) -> None:
        self.times.clear()


class Nothing:
    """A source of content that nobody reads."""

    def timed(self, workload: int) -> Any:
        return None


def rounds(terms: Terms, *spreads: float) -> list[int]:
    contestants = [Steady(spread) for spread in spreads]
    Race(cast(ContentSource, Nothing()), contestants, None).run(0, terms)
    return [len(each.times) for each in contestants]


def test_a_race_ends_once_every_median_is_known_closely() -> None:
    assert rounds(Terms(1e9, 5, 400), 0.0) == [400], "nobody asked for that"
    assert rounds(Terms(1e9, 5, 400, 0.01), 0.0) == [SURE + 1]
    some, more = (rounds(Terms(1e9, 5, 4000, 0.002), spread)[0] for spread in (0.01, 0.03))
    assert SURE < some < more < 4000
    assert rounds(Terms(1e9, 5, 60, 0.002), 0.0, 0.5) == [60, 60], "the other is not"
    assert rounds(Terms(0.0, 5, 400, 0.002), 0.5) == [5], "the budget ends it earlier"


@pytest.mark.parametrize("spread", [0.01, 0.06])
def test_the_half_width_says_how_far_medians_of_such_samples_lie_apart(spread: float) -> None:
    rng = np.random.default_rng(3)
    samples = [list(1 + spread * rng.standard_normal(200)) for _ in range(200)]
    medians = [statistics.median(sample) for sample in samples]
    width = statistics.median(map(median_half_width, samples))
    inside = sum(abs(median - 1) <= width for median in medians)
    assert 0.85 * len(medians) <= inside <= len(medians)
    assert median_half_width([2.0, 2.0, 2.0]) == 0.0


def test_round_trips_are_measured_often_at_first_and_then_now_and_then() -> None:
    coarse, precise = Allowance(coarse=True), Allowance()
    assert all(precise.samples_round_trip(call) for call in range(1, 100))
    sampled = [call for call in range(1, 100) if coarse.samples_round_trip(call)]
    assert sampled[:OFTEN] == list(range(1, OFTEN + 1))
    assert all(later - earlier <= RARELY for earlier, later in itertools.pairwise(sampled))
    assert len(sampled) < 30


class Timed:
    """A contestant whose times are known."""

    def __init__(self, *times: float) -> None:
        self.times = list(times)

    def seconds(self, workload: int) -> list[float]:
        return self.times


def test_the_times_of_a_verdict_and_of_its_incumbent_are_from_the_same_sessions() -> None:
    """A session that was worthless for one is so for the other: their medians stand in one table."""

    def session(candidate: float, rival: float) -> Session:
        return Session(cast(Any, Timed(candidate)), cast(Any, Timed(rival)), None, cast(Any, None))

    first, alike, slower = session(1.0, 2.0), session(1.05, 2.1), session(1.2, 2.4)
    assert sessions_that_count([first], 0, DRIFT) == [first]
    assert sessions_that_count([first, alike], 0, DRIFT) == [first, alike]
    assert sessions_that_count([first, slower], 0, DRIFT) == [slower]
