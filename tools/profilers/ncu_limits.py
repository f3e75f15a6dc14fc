"""Whether a unit of the GPU is at its limit, and what warps wait for: the ground that causes are judged on.

Pure: figures of one launch in (names as in `ncu_metrics.FIGURES`), never a figure that was not delivered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from tools.counters import Cause
from tools.profilers.ncu_metrics import STALLS, WORKING

Figures: TypeAlias = Mapping[str, float]

SATURATED: Final = 0.6
"""Of peak. Below it, says ncu's own rule, latency is the typical reason; above, the unit's throughput is. Real code
seldom sustains more than 90 % of any unit, so that 60 % is two thirds of what can be had."""
PIPE_FULL: Final = 0.8
"""Of peak. ncu's rule calls a pipe over-utilised from here on. Such a pipe is named even where the issue slots are
fuller: they only feed it, and other instructions can leave them, while the pipe's own can go nowhere else."""
SAME: Final = 0.95
"""A part whose figure is at least this much of the whole's is the part that the whole's figure is of: ncu defines the
whole as the largest of its parts, each measured in another pass of the kernel."""

GLOBAL_WAITS: Final = ("long_scoreboard", "lg_throttle", "drain", "membar")
SHARED_WAITS: Final = ("short_scoreboard", "mio_throttle")
LATENCIES: Final[tuple[tuple[Cause, tuple[str, ...]], ...]] = (
    ("memory_latency", (*GLOBAL_WAITS, "tex_throttle", "imc_miss")),
    ("shared_memory_latency", SHARED_WAITS),
    ("synchronization", ("barrier", "sleeping")),
)
"""Which cause a wait stands for. Any other is for results of the warp's own earlier instructions."""
TELLING_WAITS: Final = (*GLOBAL_WAITS, *SHARED_WAITS, "barrier", "wait", "selected")
"""Every chip since Volta has them; without one of them, what warps wait for most can't be told."""
PIPES: Final = ("fp32_pipe", "alu_pipe", "fp64_pipe", "xu_pipe", "lsu_pipe", "tensor_pipe")


class Limit(NamedTuple):
    """The unit at its limit; side "none" when the kernel waits instead."""

    side: Literal["memory", "compute", "none"]
    share: float
    """Of peak, of the busiest side."""
    unit: str | None = None
    """Absent where the busiest part is none that the table has."""
    cause: Cause | None = None


def find_limit(figures: Figures) -> Limit | None:
    """The side of the chip that is at its limit. None when too little was delivered to tell a limit from a wait, one
    wait or one unit from another: a busy side alone does not decide, since the other may be busier."""
    if "memory" not in figures or "compute" not in figures:
        return None
    share, side = max((figures[side], side) for side in ("memory", "compute"))
    if share < SATURATED:
        return Limit("none", share) if all(f"stall_{name}" in figures for name in TELLING_WAITS) else None
    return _memory_limit(figures, share) if side == "memory" else _compute_limit(figures, share)


def _memory_limit(figures: Figures, share: float) -> Limit | None:
    if "dram" not in figures or "l1" not in figures:
        return None
    if figures["dram"] >= SAME * share:
        return Limit("memory", share, "dram", "dram_bandwidth")
    if figures["l1"] >= SAME * share:
        return Limit("memory", share, "l1", "l1_bandwidth")
    return Limit("memory", share, "l2", "l2_bandwidth")


def _compute_limit(figures: Figures, share: float) -> Limit | None:
    if "issue" not in figures:
        return None
    busy, pipe = max(((figures[name], name) for name in PIPES if name in figures), default=(0.0, None))
    if busy >= PIPE_FULL:
        return Limit("compute", share, pipe, "compute_pipe")
    if figures["issue"] >= SAME * share:
        return Limit("compute", share, "issue slots", "issue_slots")
    return Limit("compute", share, pipe if busy >= SAME * share else None, "compute_pipe")


def stall_shares(figures: Figures) -> dict[str, float]:
    """Each state's share of a warp's time between two instructions; empty when none was measured."""
    cycles = {stall.name: figures[f"stall_{stall.name}"] for stall in STALLS if f"stall_{stall.name}" in figures}
    total = sum(cycles.values())
    return {name: value / total for name, value in cycles.items()} if total > 0 else {}


def waiting_cause(figures: Figures) -> Cause:
    """What warps wait for most, among groups of waits for the same thing."""
    shares = stall_shares(figures)
    sums: dict[Cause, float] = {cause: sum(shares.get(name, 0.0) for name in names) for cause, names in LATENCIES}
    grouped = {name for _, names in LATENCIES for name in names}
    sums["dependencies"] = sum(share for name, share in shares.items() if name not in grouped | WORKING)
    return max(sums, key=lambda cause: sums[cause])
