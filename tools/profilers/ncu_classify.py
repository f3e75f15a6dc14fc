"""Names what holds a CUDA kernel up, from the figures of one profiled launch, with the sentences that say so.

First: is a unit at its limit (`ncu_limits`)? Second: each cause that counters can measure gets the part of the time
that it alone would explain (`ncu_causes`). The largest names the cause if it is decisive; else the unit at its limit
does; else what warps wait for most. The cause decides the bottleneck class.

Pure. A cause whose figures were not delivered is listed as not examined; it is never taken for absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from tools.counters import Cause, Stall
from tools.profilers.ncu_causes import LOCAL, SECTORS, SUSPECTS, TINY_SECONDS, limiters, sectors
from tools.profilers.ncu_limits import PIPES, SATURATED, Figures, Limit, find_limit, stall_shares, waiting_cause
from tools.profilers.ncu_metrics import STALLS, WORKING

Bottleneck: TypeAlias = Literal["memory", "compute", "latency", "overhead"]

DECISIVE: Final = 0.25
"""A cause that explains a smaller part would, when removed, make the kernel less than 1.33 times as fast; then the
limit itself is the better name for what to work on."""
NOTED: Final = 0.05
"""A share below this is not worth a sentence."""
MOST_STALLS: Final = 5
CONFLICTS: Final = 1.1
"""Passes through shared memory an access, from which on conflicts are worth a sentence."""

CLASSES: Final[dict[Cause, Bottleneck]] = {
    "dram_bandwidth": "memory",
    "l2_bandwidth": "memory",
    "l1_bandwidth": "memory",
    "uncoalesced": "memory",
    "bank_conflicts": "memory",
    "register_spills": "memory",
    "compute_pipe": "compute",
    "issue_slots": "compute",
    "divergence": "compute",
    "atomics": "latency",
    "small_grid": "latency",
    "launch_overhead": "overhead",
    "low_occupancy": "latency",
    "imbalance": "latency",
    "memory_latency": "latency",
    "shared_memory_latency": "latency",
    "synchronization": "latency",
    "dependencies": "latency",
}
"""A small grid is overhead where the launch is tiny too."""


class Reading(NamedTuple):
    """What one launch's figures say. `evidence` has the decisive sentence first."""

    bottleneck: Bottleneck
    cause: Cause
    unit: str | None
    evidence: tuple[str, ...]
    unexamined: tuple[str, ...]
    """Causes that could not be examined, with the figures that they lack."""


def classify(figures: Figures) -> Reading | None:
    """The reading of one launch; None when too little was delivered to tell a limit from a wait."""
    limit = find_limit(figures)
    if limit is None:
        return None
    examined = [suspect for suspect in SUSPECTS if all(need in figures for need in suspect.needs)]
    shares = {suspect.cause: suspect.share(figures, limit) for suspect in examined}
    noted = sorted((c for c in shares if shares[c][0] >= NOTED), key=lambda c: -shares[c][0])
    sentences = [f"{shares[cause][1]} (explains {shares[cause][0]:.0%} of the time)" for cause in noted]
    if noted and shares[noted[0]][0] >= DECISIVE:
        cause = noted[0]
        sentences.insert(1, _limit_sentence(figures, limit))
    else:
        cause = limit.cause or waiting_cause(figures)
        sentences.insert(0, _limit_sentence(figures, limit))
    tiny = cause == "small_grid" and figures.get("duration", TINY_SECONDS) < TINY_SECONDS
    return Reading(
        "overhead" if tiny else CLASSES[cause],
        cause,
        limit.unit,
        (*sentences, *_remarks(figures, noted)),
        _unexamined(figures, limit),
    )


def _unexamined(figures: Figures, limit: Limit) -> tuple[str, ...]:
    """Causes that could not be judged. Full issue slots are the name for a limit that no pipe is, so pipes count."""
    needs = {suspect.cause: suspect.needs for suspect in SUSPECTS}
    if limit.cause == "issue_slots":
        needs["compute_pipe"] = PIPES
    lacking = {cause: [name for name in names if name not in figures] for cause, names in needs.items()}
    return tuple(f"whether {cause} is a cause: needs {', '.join(names)}" for cause, names in lacking.items() if names)


def top_stalls(figures: Figures) -> tuple[Stall, ...]:
    """What warps wait for, most frequent first; what is not waiting is left out."""
    shares = stall_shares(figures)
    stalls = [
        Stall(reason=stall.name, share=shares[stall.name], meaning=stall.meaning)
        for stall in STALLS
        if stall.name not in WORKING and shares.get(stall.name, 0.0) >= NOTED
    ]
    return tuple(sorted(stalls, key=lambda stall: -stall.share)[:MOST_STALLS])


def _limit_sentence(figures: Figures, limit: Limit) -> str:
    parts = [f"{side} throughput {figures[side]:.0%}" for side in ("memory", "compute") if side in figures]
    said = " and ".join(parts) + " of peak"
    if limit.side == "none":
        return f"{said}: nothing is at its limit (below {SATURATED:.0%}), so it waits"
    own = figures.get(limit.unit or "", figures.get("issue") if limit.unit == "issue slots" else None)
    return f"{said}: the limit is {limit.unit or limit.side}" + (f" at {own:.0%}" if own is not None else "")


def _remarks(figures: Figures, noted: Sequence[Cause]) -> tuple[str, ...]:
    """Sentences on what is always worth knowing: waits, occupancy, access patterns, spills, tensor cores."""
    remarks = []
    if stalls := top_stalls(figures):
        remarks.append(
            "of the time between two instructions, a warp "
            + ", ".join(f"{stall.share:.0%} {stall.meaning} ({stall.reason})" for stall in stalls[:2])
        )
    if "occupancy" in figures and "theoretical_occupancy" in figures:
        held = limiters(figures)
        remarks.append(
            f"achieved occupancy {figures['occupancy']:.0%} of {figures['theoretical_occupancy']:.0%} possible"
            + (f" (limited by {held})" if held else "")
        )
    for kind in ("load", "store"):
        if f"sectors_per_{kind}" in figures:
            remarks.append(f"{figures[f'sectors_per_{kind}']:.1f} sectors a {kind} of a warp")
    if figures.get("passes_per_shared_access", 1.0) > CONFLICTS:
        remarks.append(f"{figures['passes_per_shared_access']:.1f} passes through shared memory an access")
    if "uncoalesced" not in noted and all(name in figures for name in ("excess_sectors", *SECTORS)):
        excess = figures["excess_sectors"] / sectors(figures)
        if excess >= NOTED:
            served = figures.get("l1_load_hit_rate", 0.0)
            kept = f"; L1 serves {served:.0%} of its loads" if served >= NOTED else ""
            remarks.append(
                f"{excess:.0%} of its memory traffic is sectors that coalesced accesses would not need{kept}"
            )
    local = sum(figures.get(name, 0.0) for name in LOCAL)
    if local > 0 and "register_spills" not in noted and all(name in figures for name in SECTORS):
        remarks.append(f"{local / sectors(figures):.1%} of its memory traffic is local memory")
    if figures.get("tensor_pipe"):
        remarks.append(f"the tensor pipe is busy {figures['tensor_pipe']:.0%} of the time")
    return tuple(remarks)
