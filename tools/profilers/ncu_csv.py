"""Reads the CSV pages of Nsight Compute: `raw` (metrics), `details` (rules) and `source` (samples by line).

A cell that holds no number (empty, `no data`, `n/a`, `nan`) is missing: it has no key, and never becomes 0. Lines
before the table (`==PROF==`, `==WARNING==`, what the program printed) are skipped, as are rows of another width.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tools.counters import Rule

_SCALES: Final = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_TIMES: Final = {
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "second": 1.0,
    "msecond": 1e-3,
    "usecond": 1e-6,
    "nsecond": 1e-9,
}
_SCALED: Final = re.compile(r"([KMGT])(byte|hz)$")
_LINK: Final = re.compile(r"\s*\(?https?://[^\s)]+\)?")


@dataclass(frozen=True)
class Launch:
    """One profiled launch of a kernel."""

    id: int
    """Its place among the profiled launches, by which rules refer to it."""
    kernel: str
    """Signature, as `name(float *, int)`."""
    grid: str
    block: str
    values: dict[str, float]
    """Metric to value in base units: bytes, seconds, hertz; percentages stay percentages."""
    units: dict[str, str]
    """Metric to its base unit."""
    absent: tuple[str, ...]
    """Metrics that have a column, but no number."""


@dataclass(frozen=True)
class RuleRow:
    """One rule's text about one launch."""

    launch: int
    kernel: str
    kind: str
    """OPT (something to gain), INF (information) or WRN (a warning)."""
    rule: Rule


@dataclass(frozen=True)
class LineSamples:
    """What was sampled on one source line. `stalls` are the source page's columns, as `stall_long_sb`."""

    file: str
    function: str
    line: int
    text: str
    samples: int
    stalls: dict[str, int]


def number(cell: str) -> float | None:
    """The number in a cell, thousands separators taken out; None when there is none."""
    try:
        value = float(cell.strip().replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def base_unit(unit: str) -> tuple[float, str]:
    """What a figure in `unit` is to be multiplied with, and the unit that it then has: `Gbyte/s` to 1e9, `byte/s`."""
    over, slash, under = unit.strip().partition("/")
    factor = 1.0
    if match := _SCALED.match(over):
        factor, over = _SCALES[match[1]], match[2]
    elif over in _TIMES:
        factor, over = _TIMES[over], "s"
    if under in _TIMES:
        factor, under = factor / _TIMES[under], "s"
    elif match := _SCALED.match(under):
        factor, under = factor / _SCALES[match[1]], match[2]
    return factor, over + slash + under


def parse_raw(text: str) -> tuple[Launch, ...]:
    """Launches of `--page raw --csv`, in the order they ran; none when the text has no such table."""
    rows = _table(text, "Kernel Name")
    header = next(rows, None)
    if header is None:
        return ()
    launches: list[Launch] = []
    units: Sequence[str] | None = None
    place = {name: index for index, name in enumerate(header)}
    for row in rows:
        if units is None and not row[place["ID"]]:
            units = row
        elif row[place["ID"]].isdigit():
            launches.append(_launch(row, place, units or [""] * len(header)))
    return tuple(launches)


def _launch(row: Sequence[str], place: dict[str, int], units: Sequence[str]) -> Launch:
    values: dict[str, float] = {}
    base: dict[str, str] = {}
    absent: list[str] = []
    for name, index in place.items():
        if "_" not in name:
            continue  # what identifies the launch, as Block Size
        value = number(row[index])
        if value is None:
            absent.append(name)
            continue
        factor, unit = base_unit(units[index])
        values[name], base[name] = value * factor, unit
    fields = [row[place[name]] if name in place else "" for name in ("Kernel Name", "Grid Size", "Block Size")]
    return Launch(int(row[place["ID"]]), fields[0], fields[1], fields[2], values, base, tuple(absent))


def parse_rules(text: str) -> tuple[RuleRow, ...]:
    """Rules of `--page details --csv`. Links are cut out of their texts."""
    rows = _table(text, "Rule Name")
    header = next(rows, None)
    if header is None:
        return ()
    found: list[RuleRow] = []
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        if not cells["Rule Name"] or not cells["ID"].isdigit():
            continue
        gain = number(cells.get("Estimated Speedup", ""))
        scope = cells.get("Estimated Speedup Type", "")
        rule = Rule(
            name=cells["Rule Name"],
            text=_LINK.sub("", cells["Rule Description"]).strip(),
            speedup=None if gain is None else gain / 100,
            scope="global" if scope == "global" else "local" if scope == "local" else None,
        )
        found.append(RuleRow(int(cells["ID"]), cells["Kernel Name"], cells["Rule Type"], rule))
    return tuple(found)


def parse_source(text: str) -> tuple[LineSamples, ...]:
    """Lines of `--page source --csv --print-source cuda,sass`, each once for every file, function and line.

    Rows of single instructions are left out: a line's own row is their sum. The page repeats a function for each
    launch of it; samples of equal lines are added up. A page without samples (of the source text alone, or of
    instructions that know no line) has no lines.
    """
    file = function = ""
    header: list[str] = []
    lines: dict[tuple[str, str, int], LineSamples] = {}
    for row in csv.reader(io.StringIO(text, newline="")):
        if len(row) >= 2 and row[0] in ("File Path", "File Name"):
            file, header = row[1], []
        elif len(row) >= 2 and row[0] in ("Function Name", "Kernel Name"):
            function, header = row[1], []
        elif row[:2] == ["Line No", "Source"]:
            header = row
        elif header and len(row) == len(header) and row[0].isdigit():
            line = _line(file, function, header, row)
            if line is not None:
                key = (file, function, line.line)
                lines[key] = _added(lines[key], line) if key in lines else line
    return tuple(lines.values())


def _line(file: str, function: str, header: Sequence[str], row: Sequence[str]) -> LineSamples | None:
    cells = dict(zip(header[2:], row[2:], strict=True))
    samples = number(cells.get("# Samples", cells.get("Warp Stall Sampling (All Samples)", "")))
    if samples is None:
        return None
    stalls = {
        name: int(count)
        for name, cell in cells.items()
        if re.fullmatch(r"stall_\w+", name) and (count := number(cell)) is not None
    }
    return LineSamples(file, function, int(row[0]), row[1].strip(), int(samples), stalls)


def _added(one: LineSamples, other: LineSamples) -> LineSamples:
    stalls = {name: one.stalls.get(name, 0) + other.stalls.get(name, 0) for name in one.stalls | other.stalls}
    return LineSamples(one.file, one.function, one.line, one.text, one.samples + other.samples, stalls)


def _table(text: str, column: str) -> Iterator[list[str]]:
    """The header that begins with ID and has `column`, then every row of its width."""
    width = 0
    for row in csv.reader(io.StringIO(text, newline="")):
        if not width:
            if row[:1] != ["ID"] or column not in row:
                continue
            width = len(row)
        if len(row) == width:
            yield row
