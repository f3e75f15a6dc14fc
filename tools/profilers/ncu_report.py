"""Makes findings out of the pages of one Nsight Compute report. Pure: text in, findings out."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tools.counters import Counted, Rule, Uncounted
from tools.profilers.ncu_classify import Bottleneck, classify, top_stalls
from tools.profilers.ncu_csv import Launch, LineSamples, RuleRow, parse_raw, parse_rules, parse_source
from tools.profilers.ncu_metrics import FIGURES, INTERMEDIATE, QUOTIENTS, STALLS, WORKING, read
from tools.profilers.valgrind import source_name
from tools.profiles import Metric, SourceLine

MOST_RULES: Final = 8
MOST_LINES: Final = 12
HOT_SHARE: Final = 0.02
"""Of all samples; a line below it is not hot."""
UNOPENED: Final = "<Unable to open"
"""Begins what the profiler says in place of a line that it could not read."""
INAPPLICABLE: Final = frozenset({"MemoryL2Compression"})
"""Rules on memory that can be compressed, which an application must allocate so; they report a gain for any memory."""
LEAST_GAIN: Final = 0.01
"""A rule that promises less is left out."""
TOLD_ANYWAY: Final = frozenset({"SOLBottleneck"})
"""A rule that is worth its text also when it is not about a gain."""
_UNITS: Final = {figure.name: figure.unit for figure in FIGURES} | {q.name: q.unit for q in QUOTIENTS}


@dataclass(frozen=True)
class Pages:
    """A report as text: `--page raw`, `details` and `source --print-source cuda,sass`, each with `--csv`."""

    raw: str
    details: str
    source: str


@dataclass(frozen=True)
class Findings:
    """What the counters of one launch say, ready for a profile."""

    counters: Counted
    bottleneck: Bottleneck
    evidence: tuple[str, ...]
    metrics: tuple[Metric, ...]
    missing: tuple[str, ...]
    hot_lines: tuple[SourceLine, ...]


def read_report(pages: Pages, files: Mapping[str, str], asked: Sequence[str] = ()) -> Findings | Uncounted:
    """Findings on the launch that took longest. `files` are the kernel's sources; `asked` are further metrics, by
    ncu's names. Uncounted when nothing was profiled, or too little was delivered to tell a limit from a wait."""
    launches = parse_raw(pages.raw)
    if not launches:
        return Uncounted(reason="no_kernels", message="the profiler's report holds no launch of the kernel")
    launch = max(launches, key=lambda each: each.values.get("gpu__time_duration.sum", 0.0))
    figures, undelivered = read(launch.values)
    reading = classify(figures)
    if reading is None:
        message = f"the profiler did not deliver what tells a limit from a wait: {', '.join(undelivered)}"
        return Uncounted(reason="metrics_missing", message=message)
    lines = _lines(pages.source, launch.kernel, files)
    return Findings(
        counters=Counted(
            kernel=launch.kernel,
            cause=reading.cause,
            unit=reading.unit,
            stalls=top_stalls(figures),
            rules=best_rules(parse_rules(pages.details), launch.id),
        ),
        bottleneck=reading.bottleneck,
        evidence=(*reading.evidence, *_which(launches, launch)),
        metrics=(*_metrics(figures), *_asked(launch, asked)),
        missing=(*_missing(launch, undelivered, asked, lines), *reading.unexamined),
        hot_lines=lines,
    )


def best_rules(rows: Sequence[RuleRow], launch: int) -> tuple[Rule, ...]:
    """The rules that fired on a launch: gains of the whole kernel first, the largest first."""
    rules = [
        row.rule
        for row in rows
        if row.launch == launch
        and (row.kind != "INF" or row.rule.name in TOLD_ANYWAY)
        and row.rule.name not in INAPPLICABLE
        and (row.rule.speedup is None or row.rule.speedup >= LEAST_GAIN)
    ]
    return tuple(sorted(rules, key=lambda rule: (rule.scope != "global", -(rule.speedup or 0.0)))[:MOST_RULES])


def hot_lines(samples: Sequence[LineSamples], kernel: str, files: Mapping[str, str]) -> tuple[SourceLine, ...]:
    """The lines where most of the kernel's samples fell, with what warps wait for there. Lines of headers count and
    are named by their path; the text of the kernel's own files is taken from `files`."""
    own = [line for line in samples if line.function == kernel]
    total = sum(line.samples for line in own)
    hottest = sorted(own, key=lambda line: -line.samples)[:MOST_LINES]
    return tuple(_hot_line(line, total, files) for line in hottest if line.samples >= HOT_SHARE * total > 0)


def _hot_line(line: LineSamples, total: int, files: Mapping[str, str]) -> SourceLine:
    """The profiler can't open the kernel's own files, which are not in its sandbox: their text is known here."""
    own = source_name(line.file, files)
    written = files[own].splitlines()[line.line - 1 : line.line] if own is not None and line.line > 0 else []
    text = written[0].strip() if written else "" if line.text.startswith(UNOPENED) else line.text
    return SourceLine(
        file=own or line.file, line=line.line, text=text[:160], note=_waits(line), share=line.samples / total
    )


def _lines(page: str, kernel: str, files: Mapping[str, str]) -> tuple[SourceLine, ...]:
    try:
        return hot_lines(parse_source(page), kernel, files)
    except csv.Error:  # a line of source longer than the reader takes
        return ()


def _waits(line: LineSamples) -> str:
    """The most frequent reason to wait on a line."""
    stalls = [stall for stall in STALLS if stall.name not in WORKING and line.stalls.get(stall.column)]
    if not stalls:
        return "its warps were not seen waiting"
    top = max(stalls, key=lambda stall: line.stalls[stall.column])
    return f"{line.stalls[top.column] / max(line.samples, 1):.0%} {top.name}: {top.meaning}"


def _which(launches: Sequence[Launch], launch: Launch) -> tuple[str, ...]:
    if len(launches) == 1:
        return ()
    total = sum(each.values.get("gpu__time_duration.sum", 0.0) for each in launches)
    share = launch.values.get("gpu__time_duration.sum", 0.0) / total if total else 0.0
    return (f"of {len(launches)} profiled launches, this is the longest: {launch.kernel}, {share:.0%} of their time",)


def _metrics(figures: Mapping[str, float]) -> tuple[Metric, ...]:
    return tuple(
        Metric(name=name, value=figures[name], unit=unit, source="ncu")
        for name, unit in _UNITS.items()
        if name in figures and name not in INTERMEDIATE
    )


def _asked(launch: Launch, asked: Sequence[str]) -> tuple[Metric, ...]:
    return tuple(
        Metric(name=name, value=launch.values[name], unit=launch.units[name] or "count", source="ncu")
        for name in dict.fromkeys(asked)
        if name in launch.values
    )


def _missing(
    launch: Launch, undelivered: Sequence[str], asked: Sequence[str], lines: Sequence[SourceLine]
) -> tuple[str, ...]:
    missing = []
    if undelivered:
        missing.append(f"{', '.join(undelivered)}: this chip or profiler did not deliver it")
    if unknown := [name for name in dict.fromkeys(asked) if name not in launch.values]:
        missing.append(f"{', '.join(unknown)}: this chip does not have it, or not under this name")
    if not lines:
        missing.append("time by source line: the profiler sampled no line of the kernel's source")
    return tuple(missing)
