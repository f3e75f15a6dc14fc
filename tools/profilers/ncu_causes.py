"""The causes that counters can measure, each with the part of a launch's time that it alone would explain.

That share is (how much of the work is of the wasteful kind) x (how much of the time the unit that does such work
accounts for). A unit at its limit accounts for its own use of peak, and then nothing on the other side of the chip
counts. Where nothing is at its limit, a unit accounts for the larger of its use and of the time that warps wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tools.counters import Cause
from tools.profilers.ncu_limits import GLOBAL_WAITS, SHARED_WAITS, Figures, Limit, stall_shares

TINY_SECONDS: Final = 5e-6
"""Below this, a third of a launch is not the kernel's work."""
EMPTY_SECONDS: Final = 1.6e-6
"""Device time of a launch that does nothing, as ncu saw it on an H200."""
TENSOR_USED: Final = 0.1
"""Of peak. Kernels that feed tensor cores run few warps by design and hide latency by asynchronous copies, so their
occupancy is no fault. Above what stray instructions show in the pipe (3 %)."""
WARP: Final = 32
LIMITERS: Final = {
    "limit_registers": "registers",
    "limit_shared_mem": "shared memory",
    "limit_warps": "warps of a block",
    "limit_blocks": "blocks that fit at most",
    "limit_barriers": "barriers",
}
LOCAL: Final = ("local_load_sectors", "local_store_sectors")
SECTORS: Final = ("load_sectors", "store_sectors", "reduction_sectors", "atomic_sectors", *LOCAL, "l2_sectors")


class Suspect(NamedTuple):
    """A cause, the figures it is judged by, and its share of the time with the sentence that says so."""

    cause: Cause
    needs: tuple[str, ...]
    share: Callable[[Figures, Limit], tuple[float, str]]
    """Called only when all of `needs` were delivered."""


def sectors(figures: Figures) -> float:
    """All sectors that loads and stores ask for. What TMA moves is in L2's count alone, which is then the larger."""
    names = ("load_sectors", "store_sectors", "reduction_sectors", "atomic_sectors", *LOCAL)
    return max(sum(figures[name] for name in names), figures["l2_sectors"], 1.0)


def limiters(figures: Figures) -> str:
    """What keeps more blocks from a multiprocessor, in words; empty when that was not delivered."""
    limits = {words: figures[name] for name, words in LIMITERS.items() if name in figures}
    least = min(limits.values(), default=0.0)
    return " and ".join(words for words, blocks in limits.items() if blocks == least)


def _weight(figures: Figures, limit: Limit, side: str, waits: tuple[str, ...] = ()) -> float:
    """How much of the time the units of `side` account for."""
    if limit.side == side:
        return limit.share
    if limit.side != "none":
        return 0.0
    shares = stall_shares(figures)
    return max(figures.get(side, 0.0), sum(shares.get(name, 0.0) for name in waits))


def _spills(figures: Figures, limit: Limit) -> tuple[float, str]:
    part = sum(figures[name] for name in LOCAL) / sectors(figures)
    of = "spilled registers" if figures.get("spill_instructions") else "spilled registers or indexed local arrays"
    text = f"{part:.0%} of its memory traffic is local memory ({of})"
    return part * _weight(figures, limit, "memory", GLOBAL_WAITS), text


def _uncoalesced(figures: Figures, limit: Limit) -> tuple[float, str]:
    """Sectors beyond need. Where L1 is not the limit, those that it serves cost little, so its hits are taken off."""
    part = figures["excess_sectors"] / sectors(figures)
    leaves = 1.0 if limit.unit == "l1" else 1.0 - figures["l1_load_hit_rate"]
    text = f"{part:.0%} of its memory traffic is sectors that coalesced accesses would not need"
    return part * leaves * _weight(figures, limit, "memory", GLOBAL_WAITS), text


def _atomics(figures: Figures, limit: Limit) -> tuple[float, str]:
    part = (figures["reduction_sectors"] + figures["atomic_sectors"]) / sectors(figures)
    text = f"{part:.0%} of its memory traffic is atomics, which L2 does one after the other on an address"
    return part * _weight(figures, limit, "memory", GLOBAL_WAITS), text


def _conflicts(figures: Figures, limit: Limit) -> tuple[float, str]:
    """Passes through shared memory beyond need, times how busy shared memory is (or how long warps wait for it)."""
    if figures["shared_wavefronts"] <= 0:
        return 0.0, ""
    part = figures["excess_wavefronts"] / figures["shared_wavefronts"]
    waits = sum(stall_shares(figures).get(name, 0.0) for name in SHARED_WAITS) if limit.side == "none" else 0.0
    used = figures["shared_pipe"] if limit.side != "compute" else 0.0
    text = f"{part:.0%} of the passes through shared memory are bank conflicts"
    return part * max(used, waits), text


def _divergence(figures: Figures, limit: Limit) -> tuple[float, str]:
    part = 1 - figures["active_lanes"] / WARP
    text = f"only {figures['active_lanes']:.1f} of {WARP} threads take part in an instruction"
    return part * _weight(figures, limit, "compute"), text


def _small_grid(figures: Figures, limit: Limit) -> tuple[float, str]:
    """Multiprocessors without a block."""
    grid, chip = figures["grid_size"], figures["multiprocessors"]
    text = f"its {grid:.0f} block(s) leave {max(chip - grid, 0):.0f} of {chip:.0f} multiprocessors without work"
    return (max(0.0, 1 - grid / chip) if limit.side == "none" else 0.0), text


def _launch_overhead(figures: Figures, limit: Limit) -> tuple[float, str]:
    """What a launch costs that does nothing. A grid that leaves multiprocessors idle is the other cause."""
    if limit.side != "none" or figures["grid_size"] < figures["multiprocessors"]:
        return 0.0, ""
    text = f"it runs {figures['duration'] * 1e6:.1f} µs, of which an empty launch takes {EMPTY_SECONDS * 1e6:.1f} µs"
    tiny = figures["duration"] < TINY_SECONDS
    return (min(1.0, EMPTY_SECONDS / figures["duration"]) if tiny else 0.0), text


def _low_occupancy(figures: Figures, limit: Limit) -> tuple[float, str]:
    """The cycles without an instruction that more warps could fill: no more than warps are lacking."""
    theoretical = figures["theoretical_occupancy"]
    held = limiters(figures)
    text = f"only {theoretical:.0%} of the warps that a multiprocessor holds can be resident"
    text += f" (limited by {held})" if held else ""
    if limit.side != "none" or figures.get("tensor_pipe", 0.0) >= TENSOR_USED:
        return 0.0, ""
    return min(1 - theoretical, 1 - figures["issue_active"]), text


def _imbalance(figures: Figures, limit: Limit) -> tuple[float, str]:
    """Warps that could be resident and are not, though the grid has enough blocks: uneven blocks, or a last wave."""
    if limit.side != "none" or figures["waves"] < 1 or figures["theoretical_occupancy"] <= 0:
        return 0.0, ""
    lost = max(0.0, 1 - figures["occupancy"] / figures["theoretical_occupancy"])
    text = f"{lost:.0%} of the warps that could be resident are not: blocks are short, uneven, or few in the last wave"
    return min(lost, 1 - figures["issue_active"]), text


SUSPECTS: Final[tuple[Suspect, ...]] = (
    Suspect("register_spills", SECTORS, _spills),
    Suspect("uncoalesced", (*SECTORS, "excess_sectors", "l1_load_hit_rate"), _uncoalesced),
    Suspect("bank_conflicts", ("shared_wavefronts", "excess_wavefronts", "shared_pipe"), _conflicts),
    Suspect("atomics", SECTORS, _atomics),
    Suspect("divergence", ("active_lanes",), _divergence),
    Suspect("small_grid", ("grid_size", "multiprocessors"), _small_grid),
    Suspect("launch_overhead", ("duration", "grid_size", "multiprocessors"), _launch_overhead),
    Suspect("low_occupancy", ("theoretical_occupancy", "issue_active"), _low_occupancy),
    Suspect("imbalance", ("theoretical_occupancy", "occupancy", "issue_active", "waves"), _imbalance),
)
