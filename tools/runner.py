"""One kernel in one worker as the judge drives it: poison, flush, call, freeze, look.

Order matters. The worker is stopped while new content is written and until the clock has started, so that no thread of
its own can work on it before. It is stopped again the moment it answers, so that what the judge then reads is what was
there when the clock stopped. The round trip is measured with a worker of the judge's own: a kernel could answer empty
requests late to have more time forgiven.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.clock import LEAST_IN_A_ROW, Allowance, Clocks, Reading, Rows, calls_in_a_row
from tools.content import Content
from tools.errors import InfrastructureError
from tools.records import Diagnostic, Mismatch, Reason
from tools.worker import Worker, WorkerFailed

if TYPE_CHECKING:
    from tools.device import SharedWorker

LATE_SECONDS = 0.05
"""How long a worker with wrong outputs is let run on, to tell work that comes late from a wrong answer."""
REPEATS = 3
"""Calls that tell a wrong answer from one that changes from run to run."""
ROW_TRIES = 3
"""Rows that must all take too long before a kernel is blamed: whatever disturbs one makes it longer."""
UNDISTURBED_TRIES = 2
"""Times that a call is repeated when the device was throttled meanwhile. A reading that stays so counts, and says so:
a device that is too hot for an hour must not keep a judge from answering."""


class Failed(Exception):
    """A kernel failed a stage."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        mismatch: Mismatch | None = None,
        diagnostics: Sequence[Diagnostic] = (),
        details: Mapping[str, JsonValue] | None = None,
        output: str = "",
    ) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.mismatch = mismatch
        self.diagnostics = tuple(diagnostics)
        self.details = dict(details or {})
        self.output = output


@dataclass(frozen=True)
class Means:
    """What the judge drives every worker with."""

    round_trip: Callable[[], float]
    """Measures one empty request to a worker that can be trusted, in seconds."""
    flush: Callable[[WorkloadBuffers, OutputBuffers], None]
    """Leaves nothing of these arrays in a cache of the device."""
    allowance: Allowance


class Runner:
    """Drives one worker, which it owns (context manager). `call` may raise WorkerFailed."""

    def __init__(
        self,
        worker: Worker,
        buffers: Sequence[WorkloadBuffers],
        timeouts: Sequence[float],
        means: Means,
    ) -> None:
        worker.pause()
        self.worker = worker
        self._means = means
        self._buffers = buffers
        self._timeouts = timeouts
        self._readings: dict[int, list[Reading]] = {}
        self._round_trips: list[float] = []
        self._calls = 0
        self._last: Content | None = None
        self._late_seconds = LATE_SECONDS
        self.rows: dict[int, Rows] = {}
        """The last rows of calls, by workload."""
        self.worst_error = 0.0
        """Largest error / tolerance that `verify` has seen."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()

    def call(self, content: Content) -> None:
        self._calls += 1
        self.worker.clocked = True
        if self._means.allowance.samples_round_trip(self._calls):
            self._round_trips.append(self._means.round_trip())
        self.worker.pause()
        reading, repeats = self._call_parked(content), 0
        while self.worker.disturbed() and repeats < UNDISTURBED_TRIES:
            reading, repeats = self._call_parked(content), repeats + 1
        reading = replace(reading, device=self.worker.clock, repeats=repeats)
        self._readings.setdefault(content.workload, []).append(reading)

    def call_unclocked(self, content: Content) -> None:
        """As `call`, where only the outputs matter."""
        self.worker.clocked = False
        self.worker.pause()
        self._call_parked(content)

    def verify_last(self) -> None:
        """Check the outputs of the last call; raises Failed. Its content must still be the workload's latest."""
        content = self._last
        assert content is not None
        if not self._buffers[content.workload].intact():
            raise Failed("input_modified", f"it wrote to its inputs (workload {content.name})")
        self.worker.outputs[content.workload].fetch()
        overrun = self.worker.outputs[content.workload].overrun()
        if overrun is not None:
            raise Failed("memory_error", f"it wrote past the end of `{overrun}`")
        check = content.check(self._live(content.workload))
        if check.ok:
            self.worst_error = max(self.worst_error, check.worst)
            return
        mismatch = check.mismatch(content.name, content.distribution)
        place = f"{check.output}[{', '.join(map(str, check.index))}]" if check.index else check.output
        unwritten = self.worker.outputs[content.workload].untouched(check.output)
        where = f"(workload {content.name}, {content.distribution} inputs)"
        if self._right_later(content):
            message = f"`{place}` was right only after the call had returned {where}"
            raise Failed("late_work", message, mismatch=mismatch)
        if unwritten[check.index]:
            count = int(np.count_nonzero(unwritten))
            message = f"`{place}` was not written, as {count} of {unwritten.size} elements {where}"
            raise Failed("not_written", message, mismatch=mismatch)
        share = f"{check.wrong} of {check.total} are wrong"
        message = f"`{place}` is {check.actual} and should be {check.expected}; {share} {where}"
        raise Failed("wrong_result", message, mismatch=mismatch)

    def snapshot(self, workload: int) -> dict[str, bytes]:
        """The bytes of the outputs of the last call on the workload."""
        self.worker.outputs[workload].fetch()
        return {name: value.tobytes() for name, value in self.worker.outputs[workload].outputs.items()}

    def clocks(self, workload: int) -> Clocks:
        return Clocks(tuple(self._readings.get(workload, ())), tuple(self._round_trips), self._means.allowance)

    def disagreement_in_a_row(self, content: Content) -> str | None:
        """Why the worker's clock can't be right about single calls, as rows of them tell; None where they agree, and
        where the judge's clock is precise enough for single ones. Raises Failed for what a row computed."""
        inner = float(np.median([reading.inner for reading in self._readings[content.workload]]))
        why = None
        for _ in range(ROW_TRIES):
            rows = self._rows(content, calls_in_a_row(inner))
            if rows is None:
                return None
            self.rows[content.workload] = rows
            why = rows.disagreement(inner, self._means.allowance)
            if why is None:
                return None
        return why

    def _rows(self, content: Content, calls: int) -> Rows | None:
        """Two rows; shorter ones where so many launches can't be queued."""
        while calls >= LEAST_IN_A_ROW:
            held = self._row(content, calls, held=True)
            if held is None:
                return None
            if held[1] or calls < 2 * LEAST_IN_A_ROW:
                free = self._row(content, calls, held=False)
                return Rows(calls, held[0], free[0]) if free is not None else None
            calls = max(calls // 4, LEAST_IN_A_ROW)
        return None

    def _row(self, content: Content, calls: int, *, held: bool) -> tuple[float, bool] | None:
        self._prepare(content)
        row = self.worker.row(content.workload, calls, self._timeouts[content.workload], held=held)
        if row is None:
            return None
        self.verify_last()
        return row[0] - self.clocks(content.workload).forgiven / calls, row[1]

    def seconds(self, workload: int) -> list[float]:
        return self.clocks(workload).seconds

    def drop_readings(self, workload: int | None = None) -> None:
        if workload is None:
            self._readings.clear()
        else:
            self._readings.pop(workload, None)

    def _call_parked(self, content: Content) -> Reading:
        self._prepare(content)
        before = self.worker.caller_seconds()
        call = self.worker.call(content.workload, self._timeouts[content.workload], freeze_on_answer=True)
        after = self.worker.caller_seconds()
        self._late_seconds = max(LATE_SECONDS, 3 * call.outer)
        return Reading(call.inner, call.outer, after - before if before is not None and after is not None else None)

    def _prepare(self, content: Content) -> None:
        """Poison the outputs and empty the caches: what `verify_last` checks is then this content."""
        self._last = content
        outputs = self.worker.outputs[content.workload]
        outputs.poison(secrets.randbits(63))
        self._means.flush(self._buffers[content.workload], outputs)

    def differs_when_repeated(self) -> bool:
        """Whether a few more calls on the last content give something else than the last one did."""
        content = self._last
        assert content is not None
        wrong = self.snapshot(content.workload)
        for _ in range(REPEATS):
            self._call_parked(content)
            if self.snapshot(content.workload) != wrong:
                return True
        return False

    def _right_later(self, content: Content) -> bool:
        self.worker.resume()
        time.sleep(self._late_seconds)
        self.worker.pause()
        self.worker.outputs[content.workload].fetch(late=True)
        return content.check(self._live(content.workload)).ok

    def _live(self, workload: int) -> dict[str, NDArray[Any]]:
        """The outputs as they were fetched last, while the worker is paused."""
        return dict(self.worker.outputs[workload].outputs)


class Tenant(Runner):
    """One of several kernels in a worker that it does not own. What a call left must be looked at before another's."""

    def __init__(
        self,
        shared: SharedWorker,
        number: int,
        buffers: Sequence[WorkloadBuffers],
        timeouts: Sequence[float],
        means: Means,
    ) -> None:
        super().__init__(shared.worker, buffers, timeouts, means)
        self._shared, self._number = shared, number

    def __exit__(self, *_: object) -> None:
        """Its worker is another's to close."""

    def move(self, shared: SharedWorker, number: int) -> None:
        """Go on in another worker, which has taken the kernel in; the readings stay."""
        self._shared, self._number, self.worker = shared, number, shared.worker
        self.worker.pause()

    def _prepare(self, content: Content) -> None:
        self._shared.use(self._number)
        super()._prepare(content)


class Rival(Runner):
    """The incumbent. It was accepted before, so its failure says nothing about the candidate."""

    def call(self, content: Content) -> None:
        """Raises InfrastructureError instead of WorkerFailed."""
        try:
            super().call(content)
        except WorkerFailed as failure:
            raise InfrastructureError(f"the incumbent failed when it was raced: it {failure.message}") from failure
