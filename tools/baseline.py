"""The reference's own time on one workload, taken when a task is opened."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from tools.content import ContentSource
from tools.records import Interval
from tools.reference import Reference
from tools.runner import BaselineRunner
from tools.significance import median_interval

BASELINE_SECONDS = 0.4
"""Budget of one workload."""
BASELINE_ROUNDS = (5, 30)
"""Least and most calls. The least are run unless they take ten times the budget."""


@dataclass(frozen=True)
class Baseline:
    """How long the reference takes on one workload, and what one call of it moves and computes."""

    seconds: float
    interval: Interval
    flops: float | None
    bytes: float


def time_baseline(reference: Reference, source: ContentSource, workload: int) -> Baseline:
    """The caller holds the device. The first call only warms up, unless it alone takes the budget."""
    runner = BaselineRunner(reference)
    content = source.fresh(workload)
    flops = reference.flops(workload, content.inputs)
    moved = reference.bytes_moved(workload, content.inputs)
    begin = time.perf_counter()
    runner.call(content)
    if time.perf_counter() - begin < BASELINE_SECONDS:
        runner.drop_readings()
    least, most = BASELINE_ROUNDS
    for number in range(most):
        spent = time.perf_counter() - begin
        if spent > BASELINE_SECONDS and (number >= least or spent > 10 * BASELINE_SECONDS):
            break
        runner.call(source.timed(workload))
    samples = runner.seconds(workload)
    return Baseline(statistics.median(samples), median_interval(samples), flops, moved)
