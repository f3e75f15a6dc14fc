"""Names a kernel's bottleneck from what was measured, with the figures that say so.

Each class has a share: the part of the call's time that this cause alone would explain. The largest share wins when it
explains enough; when none does, the cores wait for something that is neither bandwidth nor arithmetic: latency.
Pure: figures in, class and evidence out.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from tools.profiles import Metric, Roofline
from tools.records import Record

Bottleneck: TypeAlias = Literal["memory", "compute", "latency", "overhead"]

EXPLAINS: Final = 0.4
"""A cause that explains a smaller part of the time is not the bottleneck."""
TINY_SECONDS: Final = 20e-6
"""A call this short is mostly entry, wake-up and cold misses."""
ISSUE_WIDTH: Final = 4.0
"""Instructions a core retires per cycle in good code."""
IDLE: Final = 0.7
"""Below this share of busy core time the cores' idling is worth a sentence."""


class Observed(Record):
    """What is known of one call. An absent figure was not measured."""

    roofline: Roofline
    cores: int
    metrics: tuple[Metric, ...] = ()
    """Of perf or valgrind; read here: instructions, traffic, ipc, l1d_miss_rate."""
    regions: int | None = None
    """OpenMP parallel regions opened by one call."""
    fork_seconds: float | None = None
    """What one empty region costs."""
    busy: float | None = None
    """Core seconds used / (cores x wall seconds)."""
    clock_hertz: float | None = None


def classify(observed: Observed) -> tuple[Bottleneck, tuple[str, ...]]:
    """The bottleneck and its evidence, the decisive sentence first. Needs nothing but the roofline."""
    shares: dict[Bottleneck, tuple[float, str]] = {
        "overhead": _overhead(observed),
        "memory": _memory(observed),
        "compute": _compute(observed),
    }
    best = max(shares, key=lambda name: shares[name][0])
    others = tuple(text for name, (_, text) in shares.items() if name != best and text)
    if shares[best][0] >= EXPLAINS:
        return best, (shares[best][1], *others, *_remarks(observed))
    summary = ", ".join(f"{name} {share:.0%}" for name, (share, _) in shares.items())
    first = (
        f"no single cause explains the {_time(observed.roofline.seconds)} of a call ({summary}): it waits on latency"
    )
    return "latency", (first, *(text for _, text in shares.values() if text), *_remarks(observed))


def _overhead(observed: Observed) -> tuple[float, str]:
    seconds = observed.roofline.seconds
    tiny = min(TINY_SECONDS / seconds, 1.0) if seconds < TINY_SECONDS else 0.0
    if observed.regions and observed.fork_seconds:
        cost = observed.regions * observed.fork_seconds
        share = min(cost / seconds, 1.0)
        text = (
            f"{observed.regions} OpenMP region(s) a call at {_time(observed.fork_seconds)} each "
            f"are {_time(cost)} of {_time(seconds)} ({share:.0%})"
        )
        if share >= tiny or not tiny:
            return share, text
    if tiny:
        return (
            tiny,
            f"a call takes {_time(seconds)}: entry, wake-up and cold misses dominate below {_time(TINY_SECONDS)}",
        )
    return 0.0, ""


def _memory(observed: Observed) -> tuple[float, str]:
    """The larger of the bytes that must move and of those that were seen to move, at the measured bandwidth."""
    roof = observed.roofline
    least = roof.bytes / roof.peak_bandwidth / roof.seconds
    text = (
        f"the {_bytes(roof.bytes)} that must move take {_time(roof.bytes / roof.peak_bandwidth)} at "
        f"{roof.peak_bandwidth / 1e9:.1f} GB/s ({least:.0%} of the call)"
    )
    moved = _metric(observed, "traffic")
    if moved is None or moved <= roof.bytes:
        return min(least, 1.0), text
    share = min(moved / roof.peak_bandwidth / roof.seconds, 1.0)
    more = f"; {_bytes(moved)} really moved beyond the core's caches, {moved / max(roof.bytes, 1.0):.1f} times as much"
    return max(share, least), f"{text}{more} ({share:.0%} of the call)"


def _compute(observed: Observed) -> tuple[float, str]:
    """The larger of the arithmetic at its peak and of the instructions at the width of the cores in use."""
    roof = observed.roofline
    share, text = 0.0, ""
    if roof.flops and roof.peak_flops:
        share = min(roof.flops / roof.peak_flops / roof.seconds, 1.0)
        text = (
            f"its {roof.flops:.3g} operations take {_time(roof.flops / roof.peak_flops)} at the measured peak of "
            f"{roof.peak_flops / 1e9:.0f} Gflop/s ({share:.0%} of the call)"
        )
    issue = _issue_share(observed)
    if issue is None:
        return share, text
    said = _issue_words(issue)
    return max(share, min(issue, 1.0)), f"{text}; {said}" if text else said


def _issue_words(issue: float) -> str:
    """A share above 1 comes from a simulated build: narrower vectors retire more instructions than the native ones."""
    if issue <= 1.0:
        return f"instructions are issued at {issue:.0%} of what the cores in use can retire"
    return (
        f"the simulated build's instructions would fill the issue slots for {issue:.1f} times the call; the native "
        "build retires fewer in wider vectors, so the slots are taken as full, not as measured"
    )


def _issue_share(observed: Observed) -> float | None:
    """How much of the instruction slots of the busy cores is used: from counted cycles, else from the clock rate."""
    ipc = _metric(observed, "ipc")
    if ipc is not None:
        return ipc / ISSUE_WIDTH
    instructions = _metric(observed, "instructions")
    if instructions is None or observed.clock_hertz is None:
        return None
    cores = observed.cores * min(observed.busy or 1.0, 1.0)
    return instructions / (max(cores, 1.0) * observed.clock_hertz * ISSUE_WIDTH * observed.roofline.seconds)


def _remarks(observed: Observed) -> tuple[str, ...]:
    remarks: list[str] = []
    if observed.busy is not None and observed.cores > 1 and observed.busy < IDLE:
        remarks.append(
            f"its threads keep {observed.busy * observed.cores:.1f} of {observed.cores} cores busy: "
            "not everything runs in parallel, or the work is uneven"
        )
    l1 = _metric(observed, "l1d_miss_rate")
    if l1 is not None and l1 > 0.1:
        remarks.append(f"{l1:.0%} of its accesses miss the first-level cache")
    branches = _metric(observed, "branch_miss_rate")
    if branches is not None and branches > 0.03:
        remarks.append(f"{branches:.0%} of its branches are mispredicted")
    return tuple(remarks)


def _metric(observed: Observed, name: str) -> float | None:
    return next((metric.value for metric in observed.metrics if metric.name == name), None)


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _bytes(count: float) -> str:
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
