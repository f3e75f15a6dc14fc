"""Instruction, cache and branch figures by cachegrind's simulation: fifty times slower, but it works on any machine.

One call of the kernel on one thread, in a build without AVX-512 (which valgrind can't execute), cut off after a time
limit: the figures say where the work and the misses are, not how fast the machine is. They are exact for that build.
"""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from tools.errors import InfrastructureError
from tools.process import run_command
from tools.profilers.replay import checked
from tools.profiles import Metric, SourceLine

Counts = dict[str, int]
"""Cachegrind's event (Ir, Dr, D1mr, DLmr, Dw, D1mw, DLmw, Bc, Bcm, Bi, Bim…) to its count."""

CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
HOT_LINES: Final = 12
HOT_SHARE: Final = 0.01
"""Lines with a smaller share of the instructions are not worth a mention."""
LINE_BYTES: Final = 64


@dataclass
class Cachegrind:
    """A parsed `cachegrind.out`: totals, and counts by (file, line)."""

    totals: Counts = field(default_factory=dict)
    lines: dict[tuple[str, int], Counts] = field(default_factory=dict)


def missing_reason() -> str | None:
    """Why valgrind can't be used here, or None when it can."""
    return None if shutil.which("valgrind") else "valgrind is not installed"


def parse(text: str) -> Cachegrind:
    """Read cachegrind's output file. InfrastructureError when it has no events or no summary (it was cut off)."""
    events: list[str] = []
    result = Cachegrind()
    current = ""
    for line in text.splitlines():
        key, _, rest = line.partition("=" if line[:3] in ("fl=", "fn=", "fi=", "fe=") else ":")
        if key in ("fl", "fi", "fe"):
            current = rest
        elif key == "events":
            events = rest.split()
        elif key == "summary":
            result.totals = dict(zip(events, map(int, rest.split()), strict=False))
        elif line[:1].isdigit():
            number, *values = map(int, line.split())
            counts = result.lines.setdefault((current, number), dict.fromkeys(events, 0))
            for name, value in zip(events, values, strict=False):
                counts[name] += value
    if not events or not result.totals:
        raise InfrastructureError("cachegrind wrote no complete result")
    return result


def cache_options(root: Path = CACHES) -> tuple[str, ...]:
    """`--D1` and `--LL` as the level 1 data and level 2 cache of a core; empty where the machine does not say.

    Level 2 stands for the last level: what a core has to itself, so that misses mean traffic to a shared level.
    """
    found: dict[str, str] = {}
    for folder in sorted(root.glob("index*")):
        try:
            level = (folder / "level").read_text().strip()
            kind = (folder / "type").read_text().strip()
            kib = int((folder / "size").read_text().strip().removesuffix("K"))
            ways = int((folder / "ways_of_associativity").read_text())
            line = int((folder / "coherency_line_size").read_text())
        except (OSError, ValueError):
            continue
        option = {("1", "Data"): "D1", ("2", "Unified"): "LL", ("2", "Data"): "LL"}.get((level, kind))
        sets = kib * 1024 // (ways * line) if ways and line else 0
        if option and sets and sets & (sets - 1) == 0:
            found[option] = f"--{option}={kib * 1024},{ways},{line}"
    return tuple(found.values()) if len(found) == 2 else ()


def command(output: Path, program: Sequence[str]) -> list[str]:
    """`program` under cachegrind, its result in `output`."""
    options = ("--cache-sim=yes", "--branch-sim=yes", "--vgdb=no", "-q", *cache_options())
    return [
        shutil.which("valgrind") or "valgrind",
        "--tool=cachegrind",
        f"--cachegrind-out-file={output}",
        *options,
        *program,
    ]


@dataclass(frozen=True)
class Simulation:
    """One simulated run. `complete` is false when the time limit ended it within the call."""

    result: Cachegrind
    complete: bool


def simulate(argv: Sequence[str], output: Path, timeout: float, env: Mapping[str, str]) -> Simulation:
    """Run a confined `command` and read its result; `timeout` is for a run that its own limit did not end.

    InfrastructureError when valgrind failed, with the last thing it said.
    """
    done = run_command(argv, timeout=timeout, env=env)
    cut = done.signal == signal.SIGPROF or done.exit_code == 128 + signal.SIGPROF
    if not cut:
        checked(done)
    try:
        text = output.read_text(errors="replace")
    except OSError as error:
        raise InfrastructureError("valgrind wrote no result") from error
    return Simulation(parse(text), complete=not cut)


def difference(full: Cachegrind, empty: Cachegrind) -> Counts:
    """The kernel's own counts: a run with the call less the same run without it."""
    return {name: max(value - empty.totals.get(name, 0), 0) for name, value in full.totals.items()}


def metrics(counts: Mapping[str, int], complete: bool) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """Figures of one call, and the names of those that can't be given: totals of a cut-off run would mislead."""
    loads, stores = counts.get("Dr", 0), counts.get("Dw", 0)
    accesses = loads + stores
    branches = counts.get("Bc", 0) + counts.get("Bi", 0)
    totals = {
        "instructions": (counts.get("Ir", 0), "instructions/call, one thread"),
        "loads": (loads, "loads/call"),
        "stores": (stores, "stores/call"),
        "traffic": (
            (counts.get("DLmr", 0) + counts.get("DLmw", 0)) * LINE_BYTES,
            "bytes/call beyond level 2, simulated",
        ),
    }
    rates = {
        "l1d_miss_rate": (counts.get("D1mr", 0) + counts.get("D1mw", 0), accesses, "fraction of accesses, simulated"),
        "l2_miss_rate": (counts.get("DLmr", 0) + counts.get("DLmw", 0), accesses, "fraction of accesses, simulated"),
        "branch_miss_rate": (counts.get("Bcm", 0) + counts.get("Bim", 0), branches, "fraction of branches, simulated"),
        "accesses_per_instruction": (accesses, counts.get("Ir", 0), "loads and stores/instruction"),
    }
    found = [
        Metric(name=name, value=float(value), unit=unit, source="valgrind")
        for name, (value, unit) in totals.items()
        if complete
    ] + [
        Metric(name=name, value=over / under, unit=unit, source="valgrind")
        for name, (over, under, unit) in rates.items()
        if under
    ]
    have = {metric.name for metric in found}
    return tuple(found), tuple(name for name in (*totals, *rates) if name not in have)


def hot_lines(full: Cachegrind, files: Mapping[str, str]) -> tuple[SourceLine, ...]:
    """The kernel's lines with the most instructions, each with what stands out there. `files`: kernel path to text."""
    own: dict[tuple[str, int], Counts] = {}
    for (path, number), counts in full.lines.items():
        name = source_name(path, files)
        if name is not None and number > 0:
            own[name, number] = counts
    total = sum(counts["Ir"] for counts in own.values())
    ranked = sorted(own.items(), key=lambda item: -item[1]["Ir"])[:HOT_LINES]
    return tuple(
        SourceLine(
            file=name,
            line=number,
            text=_text_of(files[name], number),
            note=_note(counts, own.values()),
            share=counts["Ir"] / total,
        )
        for (name, number), counts in ranked
        if counts["Ir"] >= HOT_SHARE * total > 0
    )


def source_name(path: str, files: Iterable[str]) -> str | None:
    """Which of the kernel's `files` a path in debug information means."""
    parts = PurePosixPath(re.sub(r"/(\./)+", "/", path)).parts
    fitting = [name for name in files if parts[-len(PurePosixPath(name).parts) :] == PurePosixPath(name).parts]
    return max(fitting, key=len, default=None)


def _note(counts: Counts, own: Iterable[Counts]) -> str:
    everywhere = list(own)

    def share(*events: str) -> float:
        total = sum(line.get(event, 0) for line in everywhere for event in events)
        return sum(counts.get(event, 0) for event in events) / total if total else 0.0

    accesses = counts.get("Dr", 0) + counts.get("Dw", 0)
    misses = counts.get("D1mr", 0) + counts.get("D1mw", 0)
    parts = [f"{share('Ir'):.0%} of instructions"]
    if misses and accesses:
        parts.append(f"{misses / accesses:.0%} of its accesses miss L1 ({share('D1mr', 'D1mw'):.0%} of all L1 misses)")
    if share("DLmr", "DLmw") > 0.1:
        parts.append(f"{share('DLmr', 'DLmw'):.0%} of L2 misses")
    if share("Bcm", "Bim") > 0.3 and counts.get("Bcm", 0) > 0.02 * max(counts.get("Bc", 0), 1):
        parts.append(f"{counts['Bcm'] / max(counts['Bc'], 1):.0%} of its branches are mispredicted")
    return ", ".join(parts)


def _text_of(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1].strip()[:160] if number <= len(lines) else ""
