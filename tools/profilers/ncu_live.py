"""Reads a GPU's counters while a kernel runs alone on one recorded workload, or says why they can't be read."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.counters import Uncounted
from tools.cuda_instruments import Bench
from tools.cuda_process import Host
from tools.device_code import DeviceCode
from tools.profilers import ncu
from tools.profilers.kernel_names import function_names
from tools.profilers.ncu_report import Findings

SECONDS: Final = 150.0
"""For the profiled run: some forty passes of every launch, with its memory saved and restored between them."""
MOST_LAUNCHES: Final = 12
"""Of one call that are profiled, the first ones; the longest of them is reported."""
REPORT_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class Subject:
    """A kernel that was built, and its workload as `tools.cuda_sanitizer.encode_plan` writes it."""

    library: Path
    files: Mapping[str, str]
    device: DeviceCode | None
    plan: bytes


def count(host: Host, subject: Subject, metrics: Sequence[str] = (), seconds: float = SECONDS) -> Findings | Uncounted:
    """Profile one call of the kernel. The caller holds the device. Never raises for what the profiler can't do."""
    program = ncu.find_ncu()
    if program is None:
        return ncu.uncounted("no_profiler")
    names = function_names(subject.device)
    found = _count(
        host, subject, program, ncu.Wanted(kernels=names, count=MOST_LAUNCHES, metrics=tuple(metrics)), seconds
    )
    if names and isinstance(found, Uncounted) and found.reason == "no_kernels":
        # The profiler may name them in another way; nothing but the kernel launches anything in that process.
        return _count(host, subject, program, ncu.Wanted(count=MOST_LAUNCHES, metrics=tuple(metrics)), seconds)
    return found


def _count(host: Host, subject: Subject, program: str, wanted: ncu.Wanted, seconds: float) -> Findings | Uncounted:
    with tempfile.TemporaryDirectory(prefix="warpsmith-profile-") as name:
        folder = Path(name).resolve()
        (folder / "plan").write_bytes(subject.plan)
        (folder / "own").mkdir()
        bench = Bench(
            host, subject.library, (folder / "plan",), folder / "own", ncu.folders_of(program), file_size=REPORT_BYTES
        )
        return ncu.collect(
            bench.program(1),
            files=subject.files,
            wanted=wanted,
            folder=bench.folder,
            timeout=seconds,
            env=bench.environment(),
            confine=bench.confined,
        )
