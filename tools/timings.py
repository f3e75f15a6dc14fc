"""What timing a kernel leaves behind: the processes of a session with what they measured, and a verdict's times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from tools.clock import Clocks, Reading, Rows
from tools.contestants import BaselineRunner, Contestant
from tools.race import Inspection
from tools.records import Comparison, WorkloadTiming
from tools.runner import Rival, Runner


@dataclass(frozen=True)
class Timings:
    """What a verdict says about time."""

    workloads: tuple[WorkloadTiming, ...]
    comparison: Comparison | None
    cores_used_by_others: float | None
    throttled: float | None


@dataclass(frozen=True)
class Session:
    """One set of processes that raced."""

    candidate: Runner
    rival: Rival | None
    baseline: BaselineRunner | None
    inspection: Inspection
    disturbed: dict[int, float] = field(default_factory=dict)
    """Cores that other programs used while a workload was raced, where that was too much to the end."""

    def own_seconds(self) -> float:
        """CPU time of this process and of the workers that race."""
        workers = [one.worker for one in (self.candidate, self.rival) if one is not None]
        return time.process_time() + sum(worker.cpu_seconds() for worker in workers)

    @property
    def contestants(self) -> list[Contestant]:
        return [one for one in (self.candidate, self.rival, self.baseline) if one is not None]


def sessions_that_count(sessions: Sequence[Session], workload: int, drift: float) -> list[Session]:
    """Those whose times a verdict states: all of them, or the fresh one alone where its median is `drift` times the
    first's. The incumbent's times are taken from the same ones, so that the two medians were measured side by side."""
    first, *fresh = sessions
    if fresh and _median(fresh[0], workload) > drift * _median(first, workload):
        return fresh
    return list(sessions)


def _median(session: Session, workload: int) -> float:
    return statistics.median(session.candidate.seconds(workload))


def clock_details(clocks: Clocks, rows: Rows | None, recycled: bool) -> dict[str, JsonValue]:
    """What the two clocks said of one workload, as evidence."""
    return {
        "inner_seconds": statistics.median(reading.inner for reading in clocks.readings),
        "outer_seconds": statistics.median(reading.outer for reading in clocks.readings),
        "round_trip_seconds": statistics.median(clocks.round_trips),
        "gap_seconds": clocks.gap,
        "allowed_gap_seconds": clocks.slack,
        "samples": len(clocks.readings),
        "content": "earlier draws with secret changes" if recycled else "drawn anew for every call",
        **({"in_a_row": {"calls": rows.calls, "held": rows.held, "free": rows.free}} if rows is not None else {}),
        **_device_details([reading for reading in clocks.readings if reading.device is not None]),
    }


def _device_details(readings: Sequence[Reading]) -> dict[str, JsonValue]:
    """How fast the device ran in those calls; nothing where its clock can't be read."""
    clocks = [reading.device for reading in readings if reading.device is not None]
    if not clocks:
        return {}
    speeds = [clock.megahertz for clock in clocks]
    return {
        "sm_megahertz": {"lowest": min(speeds), "median": statistics.median(speeds), "highest": max(speeds)},
        "clock_held_down_by": [*sorted({cause for clock in clocks for cause in clock.causes})],
        "calls_repeated": sum(reading.repeats > 0 for reading in readings),
        "calls_throttled": sum(reading.throttled for reading in readings),
    }


def throttled_share(sessions: Sequence[Session], workloads: int) -> float | None:
    """Of the calls that were timed on the workload that it met most, the share in which the device stayed throttled;
    None where there was none."""
    worst = 0.0
    for workload in range(workloads):
        readings = [reading for each in sessions for reading in each.candidate.clocks(workload).readings]
        worst = max(worst, sum(reading.throttled for reading in readings) / max(len(readings), 1))
    return worst or None
