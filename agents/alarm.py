"""Ends a run in which something hangs past its time budget. One in which nothing does looks at its limits itself,
between two calls (`agents.limits`).

A minute and a tenth of the budget after its end, calls to models of which nothing was heard are let go; a minute later
those of which something was, and the run ends in order both times: its winner is measured afresh. What does not end
then, such as a judge that is lost, is cut another minute later, and nothing is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from agents.control import Control
from agents.limits import GRACE, Clock, lets_go_at
from agents.models.failover import Lineup
from agents.settings import Role


class Alarm:
    """Belongs to the run's event loop. Its clock stands still while the run waits for a person."""

    def __init__(
        self, clock: Clock, control: Control, models: Mapping[Role, Lineup], is_measured: Callable[[], bool]
    ) -> None:
        """is_measured: whether the winner is measured, which is never cut."""
        self._clock, self._control, self._models, self._is_measured = clock, control, models, is_measured
        self._timer: asyncio.TimerHandle | None = None
        self._taken = 0
        """How many steps."""
        self._due = 0.0
        """When the next step is to be taken."""

    def set(self, wall_time: float | None) -> None:
        """The time budget in seconds, None is no bound. Again whenever it changed, or the clock stood still."""
        self.stop()
        first = 0.0 if wall_time is None else lets_go_at(wall_time)
        if not self._taken or self._clock.elapsed < first:
            self._taken, self._due = 0, first
        if wall_time is not None:
            self._look()

    def stop(self) -> None:
        """It rings no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        steps = (lambda: self._let_go(begun=False), lambda: self._let_go(begun=True), self._cut)
        while self._taken < len(steps) and self._clock.elapsed >= self._due:
            steps[self._taken]()
            self._taken, self._due = self._taken + 1, self._clock.elapsed + GRACE
        if self._taken < len(steps):
            left = max(0.0, self._due - self._clock.elapsed)
            self._timer = asyncio.get_running_loop().call_later(left, self._look)

    def _let_go(self, *, begun: bool) -> None:
        for lineup in self._models.values():
            lineup.parting.let_go("time", begun=begun)

    def _cut(self) -> None:
        if not self._is_measured():
            self._control.stop("wall_time")
