"""Hardware counters by `perf stat`, where the machine has them (virtual machines and containers often have none).

Only reads and runs `perf`; the kernel itself runs behind the sandbox's launcher, whose children perf counts.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.errors import InfrastructureError
from tools.process import run_command
from tools.profilers.replay import checked
from tools.profiles import Metric

EVENTS: Final = (
    "cycles",
    "instructions",
    "branches",
    "branch-misses",
    "cache-references",
    "cache-misses",
    "L1-dcache-loads",
    "L1-dcache-load-misses",
    "dTLB-loads",
    "dTLB-load-misses",
    "stalled-cycles-backend",
    "page-faults",
    "context-switches",
    "task-clock",
)
"""Asked for by name; what a machine lacks is left out of the result and listed as missing."""
NEEDED: Final = ("cycles", "instructions")
MISSING_MARKS: Final = ("<not supported>", "<not counted>")
LINE_BYTES: Final = 64

Counts = dict[str, float]
"""Event name to its count; an event that was not measured has no key."""


def parse_stat(text: str) -> tuple[Counts, tuple[str, ...]]:
    """Read the output of `perf stat -x,`: the counts, and the names of events that were not measured.

    Counts are as perf scaled them for multiplexing; `task-clock` is in milliseconds. Lines that are not counts
    (comments, derived metrics without an event) are skipped; a count that is not a number is missing, never 0.
    """
    counts: Counts = {}
    missing: list[str] = []
    for line in text.splitlines():
        fields = line.split(",")
        if line.startswith("#") or len(fields) < 3 or not fields[2]:
            continue
        name = _plain_name(fields[2])
        value = fields[0].strip()
        try:
            if value in MISSING_MARKS:
                raise ValueError(value)
            counts[name] = counts.get(name, 0.0) + float(value)
        except ValueError:
            missing.append(name)
    return counts, tuple(dict.fromkeys(name for name in missing if name not in counts))


def _plain_name(event: str) -> str:
    """The event without its modifier (`cycles:u`) or, on hybrid chips, its unit (`cpu_core/cycles/`)."""
    if "/" in event:
        return event.split("/")[1]
    return event.partition(":")[0]


@functools.cache
def missing_reason() -> str | None:
    """Why hardware counters can't be read here, or None when they can. Really tried, once a process."""
    if shutil.which("perf") is None:
        return "perf is not installed"
    try:
        tried = run_command(["perf", "stat", "-x,", "-e", ",".join(NEEDED), "--", "true"], timeout=10)
    except InfrastructureError as error:
        return error.message
    if not tried.ok:
        return f"perf stat fails here: {(tried.stderr.strip().splitlines() or ['no message'])[0]}"
    counts, _ = parse_stat(tried.stderr)
    if all(counts.get(name, 0.0) > 0 for name in NEEDED):
        return None
    return "this machine gives no hardware counters"


def count(argv: Sequence[str], output: Path, timeout: float, env: Mapping[str, str]) -> Counts:
    """Run `argv` under perf stat; counts of it and all its children. `output` is where perf writes them.

    InfrastructureError when it does not end well within `timeout` seconds.
    """
    perf = shutil.which("perf") or "perf"
    checked(
        run_command(
            [perf, "stat", "-x,", "-e", ",".join(EVENTS), "-o", str(output), "--", *argv], timeout=timeout, env=env
        )
    )
    return parse_stat(output.read_text(errors="replace"))[0]


def per_call(full: Counts, empty: Counts, calls: int) -> Counts:
    """Counts of one call: the difference between a run with `calls` calls and one with none, where it is positive."""
    differences = {name: (value - empty.get(name, 0.0)) / calls for name, value in full.items()}
    return {name: value for name, value in differences.items() if value > 0}


def _ratio(over: str, under: str) -> Callable[[Counts], float | None]:
    return lambda counts: counts[over] / counts[under] if over in counts and under in counts else None


def _value(name: str, factor: float = 1.0) -> Callable[[Counts], float | None]:
    return lambda counts: counts[name] * factor if name in counts else None


METRICS: Final[tuple[tuple[str, str, Callable[[Counts], float | None]], ...]] = (
    ("instructions", "instructions/call", _value("instructions")),
    ("cycles", "cycles/call, all cores", _value("cycles")),
    ("ipc", "instructions/cycle", _ratio("instructions", "cycles")),
    ("backend_stalls", "fraction of cycles", _ratio("stalled-cycles-backend", "cycles")),
    ("l1d_miss_rate", "fraction of loads", _ratio("L1-dcache-load-misses", "L1-dcache-loads")),
    ("dtlb_miss_rate", "fraction of loads", _ratio("dTLB-load-misses", "dTLB-loads")),
    ("llc_miss_rate", "fraction of references", _ratio("cache-misses", "cache-references")),
    ("traffic", "bytes/call beyond the last cache", _value("cache-misses", LINE_BYTES)),
    ("branch_miss_rate", "fraction of branches", _ratio("branch-misses", "branches")),
    ("page_faults", "faults/call", _value("page-faults")),
)


def metrics(counts: Counts) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """What the counts of one call say, and the names of the figures that they can't give."""
    found = {name: (unit, figure(counts)) for name, unit, figure in METRICS}
    have = tuple(Metric(name=n, value=v, unit=unit, source="perf") for n, (unit, v) in found.items() if v is not None)
    return have, tuple(name for name, (_, value) in found.items() if value is None)
