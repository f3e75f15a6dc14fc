"""compute-sanitizer on a kernel that is replayed alone: bad accesses, races in shared memory, reads of nothing, device
memory that grows with every call. What a kernel keeps from its first call on is its own affair.

Not covered: races in global memory, which no tool here sees (repeated runs are the defence); a kernel that leaks in
some calls only; one that crashes on the host when it is watched, which is told as what could not be checked.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools import cuda_programs
from tools.contract import Signature, Slot
from tools.cuda_instruments import Bench
from tools.cuda_process import Host
from tools.process import Completed, run_command
from tools.records import Diagnostic
from tools.targets.cuda_toolkit import find_toolkit

SECONDS = 60.0
"""For one tool on each of its workloads, and for the compiler that it may have to wait for."""
LIBRARY = "kernel.so"
KEPT = 8 << 10
"""Characters kept of what a tool says."""
FOUND = 77
"""Exit code of a tool that found something."""
LEAKS = "leakcheck"
"""memcheck on several calls, for what is left behind alone: no launch is looked into, so it takes no time of that, and
calls that fail are not held against a kernel: what is updated in place is not made anew for each of them, and at the
end the device is given back before a library's last destructors."""
LEAK_CALLS = 4
"""Calls that must each leave something behind before a kernel is suspected; as many more must do so again."""
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "memcheck": ("--leak-check", "no"),
    LEAKS: ("--leak-check", "full", "--launch-skip", str(1 << 20), "--report-api-errors", "no"),
    "racecheck": ("--racecheck-report", "analysis"),
    "initcheck": (),
}
_NAMES = {LEAKS: "memcheck"}
"""What the program calls them, where that differs."""
_PASSED = "replay: passed"
"""Said by the program after each workload."""
_DIED = "didn't terminate successfully"
"""Said of a program that a signal ended: perhaps the tool's own doing."""
_KINDS = {"input": 0, "output": 1, "value": 2, "scalar": 3}
_WHAT = re.compile(
    r"^=========\s+(?P<what>(?:Invalid|Uninitialized|Misaligned|Out-of-range|Error: (?:Race|Potential)|Warning: Race|"
    r"Program hit|Address 0x)[^\n]*)",
    re.MULTILINE,
)
_LEFT = re.compile(r"LEAK SUMMARY: (?P<bytes>[\d,]+) bytes leaked in (?P<count>[\d,]+) allocation")
_PLACE = re.compile(r"(?:in|at) (?:\S*/)?(?P<file>[\w.+-]+\.(?:cuh?|h|hpp|cpp|py)):(?P<line>\d+)")


@dataclass(frozen=True)
class Finding:
    """What a tool said first."""

    summary: str
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class Left:
    """Device memory that a kernel had not given back at its end."""

    count: int
    """Allocations."""
    nbytes: int


@dataclass(frozen=True)
class Outcome:
    """How one tool ended on its workloads: `finding`, or `trouble` when it could not look, or neither."""

    tool: str
    finding: Finding | None = None
    trouble: str = ""
    text: str = ""
    """All that it said, trimmed."""
    passed: int = 0
    """With a finding or trouble: the workloads, from the first on, that the kernel went through before."""


class Sanitizing:
    """Jobs (a tool and the names of its plans) that run confined in the background, as many at once as there are cores.
    They come up without the kernel's library and wait for it. Leave it, and what still runs is ended.

    A job is one process however many plans it has: a driver makes contexts one after the other, 0.17 s each on an H200.
    """

    def __init__(
        self,
        host: Host,
        plan: Callable[[str], bytes],
        jobs: Sequence[tuple[str, Sequence[str]]],
        *,
        vendor: bool = False,
    ) -> None:
        """`plan` makes the recorded workload of a name, once, in a thread of this one's. `vendor`: see `Bench`."""
        program = find_toolkit().tool("compute-sanitizer")
        self._lacking = [tool for tool, _ in jobs] if program is None else []
        self._folder = tempfile.TemporaryDirectory(prefix="warpsmith-")
        self._inbox = cuda_programs.inbox()
        self._stop = os.eventfd(0)
        self._writer, self._pool = ThreadPoolExecutor(1), ThreadPoolExecutor(os.cpu_count())
        self._plans: dict[str, Future[int]] = {}
        self._runs: list[Future[Outcome]] = []
        if program is None:
            return
        folder = Path(self._folder.name).resolve()
        for tool, names in jobs:
            for name in names:
                if name not in self._plans:
                    self._plans[name] = self._writer.submit(_write, folder / name, plan)
            own = folder / tool
            own.mkdir()
            plans = tuple(folder / name for name in names)
            bench = Bench(host, self._inbox / LIBRARY, plans, own, vendor=vendor)
            written = [self._plans[name] for name in names]
            self._runs.append(self._pool.submit(_run, bench, program, tool, self._stop, written))

    def __enter__(self) -> Sanitizing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(self, library: Path) -> None:
        """Give them the kernel. Returns when no plan is being made any more."""
        draft = self._inbox / "draft"
        shutil.copyfile(library, draft)
        draft.rename(self._inbox / LIBRARY)
        wait(self._plans.values())

    def outcomes(self) -> list[Outcome]:
        """Wait for all of them; in the order of the jobs."""
        lacking = [Outcome(tool, trouble="this machine has no compute-sanitizer") for tool in self._lacking]
        return lacking or [run.result() for run in self._runs]

    def close(self) -> None:
        """Returns when nothing of it runs any more. Safe to call again."""
        if self._stop >= 0:
            os.eventfd_write(self._stop, 1)
            self._writer.shutdown(cancel_futures=True)
            self._pool.shutdown(cancel_futures=True)
            os.close(self._stop)
            self._stop = -1
            self._folder.cleanup()
            shutil.rmtree(self._inbox, ignore_errors=True)


def _write(path: Path, plan: Callable[[str], bytes]) -> int:
    return path.write_bytes(plan(path.name))


def _run(bench: Bench, program: Path, tool: str, stop: int, plans: Sequence[Future[int]]) -> Outcome:
    for plan in plans:
        plan.result()
    allowed = SECONDS * len(plans)

    def watched(calls: int) -> Completed:
        command = [
            *(str(program.resolve()), "--tool", _NAMES.get(tool, tool), *OPTIONS[tool], "--error-exitcode", str(FOUND)),
            *("--print-limit", "4", "--target-processes", "application-only"),
            *bench.program(calls),
        ]
        return run_command(bench.confined(command), timeout=allowed, env=bench.environment(), cwd=Path("/"), stop=stop)

    if tool != LEAKS:
        return outcome_of(tool, watched(1), allowed)
    first = watched(LEAK_CALLS)
    outcome, left = outcome_of(tool, first, allowed), read_left(first.stdout + first.stderr)
    if outcome.finding is not None or outcome.trouble or left.count < LEAK_CALLS:
        return outcome
    more = watched(2 * LEAK_CALLS)  # costs a second, for the few that keep so many
    return leak_outcome(left, read_left(more.stdout + more.stderr), outcome_of(tool, more, allowed))


def outcome_of(tool: str, ran: Completed, allowed: float = SECONDS) -> Outcome:
    """What a finished tool says that had so many seconds. What was left behind is not held against a kernel here."""
    text = ran.stdout + ran.stderr
    passed = text.count(_PASSED)
    if ran.timed_out:
        return Outcome(tool, trouble=f"it took more than {allowed:g} s", passed=passed)
    finding = read_finding(_NAMES.get(tool, tool), text)
    if ran.exit_code == FOUND and finding is not None:
        return Outcome(tool, finding, text=text[:KEPT], passed=passed)
    only_left = ran.exit_code == FOUND and read_left(text).count > 0
    if (ran.exit_code == 0 or only_left) and "replay: done" in text:
        return Outcome(tool)
    if (
        ran.exit_code is not None
        and "SUMMARY:" in text
        and "replay:" not in text.replace(_PASSED, "")
        and _DIED not in text
    ):
        ended = Finding(f"it ended its process, which it does only when it is watched ({tool})", ())
        return Outcome(tool, ended, text=text[:KEPT], passed=passed)
    last = (text.strip().splitlines() or ["nothing said"])[-1]
    return Outcome(tool, trouble=f"it ended with exit code {ran.exit_code}: {last[:200]}", passed=passed)


def read_left(text: str) -> Left:
    """What the tool says was left behind; nothing where it says nothing of that."""
    found = _LEFT.search(text)
    return Left(*(int(found[part].replace(",", "")) for part in ("count", "bytes"))) if found else Left(0, 0)


def leak_outcome(first: Left, second: Left, after: Outcome) -> Outcome:
    """`first` was left by LEAK_CALLS calls, `second` by twice as many, which ended like `after`."""
    if after.finding is not None or after.trouble or second.count - first.count < LEAK_CALLS:
        return after
    grown = (second.nbytes - first.nbytes) / LEAK_CALLS
    summary = (
        f"it takes device memory in every call and does not give it back: {grown:,.0f} bytes a call, as {LEAK_CALLS}"
        f" calls leave {first.nbytes:,} bytes and {2 * LEAK_CALLS} leave {second.nbytes:,} ({LEAKS})"
    )
    return Outcome(LEAKS, Finding(summary, ()))


def read_finding(tool: str, text: str) -> Finding | None:
    """The first thing that the tool reports, with the source lines that it names."""
    match = _WHAT.search(text)
    if match is None:
        return None
    what = match["what"].strip()
    end = _WHAT.search(text, match.end())
    part = text[match.start() : end.start() if end else match.start() + 4000]
    places = list(dict.fromkeys((place["file"], int(place["line"])) for place in _PLACE.finditer(part)))[:2]
    short = re.sub(r"\s+at \S.*", "", what) if tool != "racecheck" else "a race in shared memory"
    where = " and ".join(f"{file}:{line}" for file, line in places)
    diagnostics = tuple(Diagnostic(severity="error", message=what, file=file, line=line) for file, line in places)
    return Finding(f"{short}{f' at {where}' if where else ''} ({tool})", diagnostics)


def encode_plan(signature: Signature, slots: tuple[Slot, ...], values: Mapping[str, Any]) -> bytes:
    """The recorded workload, as `native/gpu_replay.cu` reads it."""
    sizes = {item.name: item.nbytes for item in (*signature.input_tensors, *signature.outputs)}
    parts = [struct.pack("=Q", len(slots))]
    for slot in slots:
        value, content, filled = 0, b"", False
        size = sizes[slot.name] if slot.kind in ("input", "output") else 0
        if slot.kind == "value":
            value = slot.value % 2**64
        elif slot.kind == "scalar":
            value = _bits(values[slot.name])
        elif slot.kind == "input" or slot.name in signature.in_place:
            content, filled = np.ascontiguousarray(values[slot.name]).tobytes(), True
        parts.append(struct.pack("=QQQQ", _KINDS[slot.kind], size, value, filled) + content)
    return b"".join(parts)


def _bits(value: Any) -> int:
    """A scalar's 8 bytes."""
    data = struct.pack("=d", value) if isinstance(value, float | np.floating) else struct.pack("=q", int(value))
    return int(struct.unpack("=Q", data)[0])
