"""Where start, best and baseline stand under the roofs that were measured on the machine."""

from __future__ import annotations

from typing import Literal

from app.plot_frame import pictures
from app.plots import Spot, roofline
from app.summary import Summary
from tools.facts import TaskFacts


def roofline_of(summary: Summary, facts: TaskFacts | None, baseline: str) -> str:
    """The first workload with a known operation count under the roofs that set the limit."""
    if facts is None:
        return ""
    known = {w.workload: w for w in facts.workloads if w.flops and w.bytes}
    row = next((row for row in summary.rows if row.workload in known), None)
    bandwidth, peak = _roofs(facts)
    if row is None or bandwidth is None:
        return ""
    work = known[row.workload]
    assert work.flops is not None
    times: list[tuple[str, float | None, Literal["start", "best", "baseline"]]] = [
        ("start", row.start_seconds, "start"),
        ("best", row.best_seconds, "best"),
        (baseline, row.baseline_seconds, "baseline"),
    ]
    spots = [Spot(name, work.flops / work.bytes, work.flops / s, style) for name, s, style in times if s]
    return pictures(lambda frame: roofline(frame, spots, bandwidth, peak))


def _roofs(facts: TaskFacts) -> tuple[float | None, float | None]:
    """Measured bandwidth, bytes/s, and the multiply-add peak that sets the limit; where the facts don't tell which that
    is, that of the widest floating type of the task's data."""
    rates = [v for k, v in facts.hardware.items() if k.endswith("bandwidth") and isinstance(v, int | float)]
    peaks = facts.hardware.get("peak_flops")
    text = " ".join(name for w in facts.workloads for name in (*w.inputs, *w.outputs))
    peak = None
    if isinstance(peaks, dict):
        widest = next((d for d in ("float64", "float32", "float16") if f": {d}" in text), "float32")
        found = peaks.get(next((w.arithmetic for w in facts.workloads if w.flops), "") or widest)
        peak = float(found) if isinstance(found, int | float) else None
    return (max(rates) if rates else None), peak
