"""Timed rounds: everyone computes the same fresh content, in a random order, one at a time."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.content import Content, ContentSource
from tools.contestants import Contestant
from tools.runner import Failed, Runner
from tools.significance import Pairs, median_half_width

WARM_UP_SECONDS = 0.05
"""Warm-up rounds end once they took this long; the first of them always runs."""
WARM_UP_ROUNDS = 3
CHECKED_SHARE = 0.3
"""Seconds of checking allowed for each second of timing."""
LEAST_CHECKED = 3
SURE, LOOKS = 24, 8
"""Rounds before an interval is trusted to say how wide it is, and from one look at it to the next."""

Inspect = Callable[[Content], None]

_random = secrets.SystemRandom()


@dataclass(frozen=True)
class Terms:
    """How long to time one workload. The budget is soft: the least number of rounds is always run."""

    seconds: float
    least: int
    most: int
    close_enough: float = 0.0
    """Half the width, as a fraction, of a median's interval from which on no more rounds are needed."""


class Inspection:
    """Checks the candidate's outputs after rounds chosen in secret; every round where checking is cheap enough."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._cost: dict[int, float] = {}
        self.checked = 0
        self.calls = 0

    def choose(self, workload: int, terms: Terms) -> frozenset[int]:
        """The rounds to check, out of `terms.most`."""
        cost = self._cost.get(workload)
        affordable = terms.most if cost is None else int(CHECKED_SHARE * terms.seconds / max(cost, 1e-6))
        share = min(1.0, affordable / terms.most)
        early = _random.sample(range(terms.least), min(terms.least, max(LEAST_CHECKED, round(share * terms.least))))
        later = [number for number in range(terms.least, terms.most) if _random.random() < share]
        return frozenset((*early, *later))

    def check(self, content: Content) -> None:
        """Raises Failed."""
        begin = time.perf_counter()
        try:
            self._runner.verify_last()
        except Failed as failed:  # it passed the earlier stages, so perhaps it is right on some runs only
            if failed.reason == "wrong_result" and self._runner.differs_when_repeated():
                message = f"other runs on the same inputs differ: {failed.message}"
                raise Failed("nondeterministic", message, mismatch=failed.mismatch) from None
            raise
        self._cost[content.workload] = time.perf_counter() - begin
        self.checked += 1


class Race:
    """Races the contestants workload by workload; their readings stay with them."""

    def __init__(self, source: ContentSource, contestants: Sequence[Contestant], inspection: Inspection | None) -> None:
        self._source = source
        self._contestants = contestants
        self._inspection = inspection

    def warm_up(self, workloads: Sequence[int]) -> None:
        """Rounds that are checked like any other but whose times are dropped."""
        for workload in workloads:
            begin = time.perf_counter()
            for _ in range(WARM_UP_ROUNDS):
                self._round(workload, check=True)
                if time.perf_counter() - begin > WARM_UP_SECONDS:
                    break
        for contestant in self._contestants:
            contestant.drop_readings()

    def run(self, workload: int, terms: Terms, hopeless: Callable[[int], bool] = lambda _: False) -> None:
        """Rounds until the budget is used, the most are run, the times are known closely enough, or
        `hopeless(workload)` after the budget is used."""
        checked = self._inspection.choose(workload, terms) if self._inspection else frozenset()
        begin = time.perf_counter()
        timed = 0.0
        for number in range(terms.most):
            timed += self._round(workload, check=number in checked)
            spent = time.perf_counter() - begin
            if number + 1 >= terms.least and (timed > terms.seconds or spent > 3 * terms.seconds):
                break
            if spent > terms.seconds and hopeless(workload):
                break
            if number + 1 >= max(terms.least, SURE) and number % LOOKS == 0 and self._is_close(workload, terms):
                break

    def _is_close(self, workload: int, terms: Terms) -> bool:
        """Whether every contestant's median is known closely. How wide an interval is says nothing of where it lies, so
        that to stop by it favours nobody."""
        return terms.close_enough > 0 and all(
            median_half_width(each.seconds(workload)) <= terms.close_enough for each in self._contestants
        )

    def _round(self, workload: int, *, check: bool) -> float:
        """Seconds spent, checks not counted."""
        begin = time.perf_counter()
        content = self._source.timed(workload)
        for contestant in _random.sample(self._contestants, len(self._contestants)):
            contestant.call(content)
        elapsed = time.perf_counter() - begin
        if self._inspection is not None:
            self._inspection.calls += 1
            if check:
                self._inspection.check(content)
        return elapsed


def pairs(
    weights: Sequence[float], sessions: Sequence[tuple[Contestant, Contestant]], workloads: Sequence[int]
) -> list[Pairs]:
    """Paired times of (incumbent, candidate) over all sessions, by workload; workloads without a pair are left out."""
    found = []
    for workload in workloads:
        incumbent: list[float] = []
        candidate: list[float] = []
        for one, other in sessions:
            both = list(zip(one.seconds(workload), other.seconds(workload), strict=False))
            incumbent += [first for first, _ in both]
            candidate += [second for _, second in both]
        if candidate:
            found.append(Pairs(weights[workload], incumbent, candidate))
    return found
