"""Where the time goes, by source line: perf's software clock samples the native build, with or without counters."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.process import run_command
from tools.profilers.replay import checked
from tools.profilers.valgrind import source_name
from tools.profiles import SourceLine

HERTZ: Final = 1999
LEAST: Final = 40
"""Fewer samples of the kernel say nothing about its lines."""
LINES: Final = 12
SHARE: Final = 0.02
OUTPUT_LIMIT: Final = 64 << 20
LIBRARIES: Final = ("libgomp", "libm.", "libm-", "libmvec", "libc.", "libc-", "libstdc++")
WAITING: Final = "libgomp"

_PLACE = re.compile(r"^\s*[0-9a-f]+\s+(?P<symbol>.+?)\s+\((?P<object>[^()]*)\)\s*$")
_SOURCE = re.compile(r"^\s+(?P<file>\S.*):(?P<line>\d+)\s*$")


@dataclass(frozen=True)
class Samples:
    """Samples taken while the kernel ran: by (path, line), all of them, and those inside the OpenMP runtime."""

    lines: Mapping[tuple[str, int], int]
    total: int
    waiting: int


def sample(argv: Sequence[str], library: Path, output: Path, timeout: float) -> Samples:
    """Run `argv` under `perf record` with the CPU clock; `output` is where perf writes.

    InfrastructureError when perf is missing or may not sample here, or the program does not end well in time.
    """
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    perf = shutil.which("perf") or "perf"
    record = [perf, "record", "-q", "-e", "cpu-clock:u", "-F", str(HERTZ), "-o", str(output), "--", *argv]
    checked(run_command(record, timeout=timeout, env=env))
    script = [perf, "script", "-i", str(output), "-F", "ip,sym,dso,srcline"]
    shown = checked(run_command(script, timeout=timeout, env=env, output_limit=OUTPUT_LIMIT))
    return parse_script(shown.stdout, library.name)


def parse_script(text: str, library: str) -> Samples:
    """Read `perf script -F ip,sym,dso,srcline`: one line a sample, then its source line if it has one.

    Counts what was sampled in the kernel's `library` (a file name) and in the runtime libraries it may call.
    """
    lines: Counter[tuple[str, int]] = Counter()
    total = waiting = 0
    inside = False
    for row in text.splitlines():
        if place := _PLACE.match(row):
            name = Path(place["object"]).name
            inside = name == library
            if inside or name.startswith(LIBRARIES):
                total += 1
                waiting += name.startswith(WAITING)
        elif inside and (source := _SOURCE.match(row)):
            lines[source["file"], int(source["line"])] += 1
            inside = False
    return Samples(dict(lines), total, waiting)


def hot_lines(samples: Samples, files: Mapping[str, str]) -> tuple[SourceLine, ...]:
    """The kernel's lines where most of the time was seen; none when there are too few samples to tell."""
    own: Counter[tuple[str, int]] = Counter()
    for (path, line), count in samples.lines.items():
        name = source_name(path, files)
        if name is not None and 0 < line <= len(files[name].splitlines()):
            own[name, line] += count
    if samples.total < LEAST:
        return ()
    return tuple(
        SourceLine(
            file=name,
            line=line,
            text=files[name].splitlines()[line - 1].strip()[:160],
            note=f"{count / samples.total:.0%} of the time",
            share=count / samples.total,
        )
        for (name, line), count in own.most_common(LINES)
        if count >= SHARE * samples.total
    )
