"""The session beside a long run, measured in a real terminal: from a key to the first byte and to the last that it
changed on the screen.

    python -m bench.session [--attempts 200] [--rounds 6]

The run is synthetic: attempts with sources of 4 to 30 KB, and ten events each. The session is a process of its own on a
pseudo-terminal of 160 by 48, so what is timed is what a person waits for, but for the terminal's own drawing. Of an
escape the wait for more of a sequence is taken off: it is no work of ours. `over_bound` names the keys whose last byte
comes later than 50 ms in the median.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from agents.events import Journal
from agents.settings import Models
from app.session.terminal import ESCAPE_WAIT
from memory.ledger import Outcome
from memory.runs import Attempt, RunFolder
from tests.stub_executor import TASK
from tests.synthetic_run import _accepted as accepted
from tests.synthetic_run import _facts as facts
from tests.synthetic_run import _profile as profile
from tests.synthetic_run import _rejected as rejected
from tools.records import Accepted, BuildReport, Kernel

SIZE = (48, 160)
"""Lines and columns."""
QUIET = 0.09
"""Seconds without output after which a key's answer is whole."""
BOUND_MS = 50.0
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
IDLE = 10.0
"""Seconds over which a session that nobody touches is watched."""
KEYS: tuple[tuple[str, bytes], ...] = (
    ("up", b"\x1b[A"),
    ("down", b"\x1b[B"),
    ("home", b"\x1b[H"),
    ("end", b"\x1b[F"),
    ("page up", b"\x1b[5~"),
    ("best", b"b"),
    ("kernel", b"2"),
    ("page down", b"\x1b[6~"),
    ("view", b"v"),
    ("view", b"v"),
    ("view", b"v"),
    ("verdict", b"3"),
    ("log", b"6"),
    ("page up", b"\x1b[5~"),
    ("zoom", b"z"),
    ("zoom", b"z"),
    ("plan", b"1"),
    ("help", b"?"),
    ("back", b"\x1b"),
    ("hint", b"h"),
    ("letter", b"a"),
    ("leave", b"\x1b"),
    ("accept", b"w"),
    ("no", b"n"),
    ("export", b"X"),
    ("next form", b"\x1b[B"),
    ("leave it", b"\x1b"),
)


def make_run(root: Path, attempts: int) -> RunFolder:
    """A run of so many attempts that ended."""
    rng = random.Random(7)
    run = RunFolder.create(root, "long", {"task": TASK.model_dump(mode="json")})
    run.write_facts(facts().model_dump(mode="json"))
    models = Models().model_dump(mode="json")
    with Journal(run.path / "events.jsonl", lambda _: None) as journal:
        journal.tell(
            "run_started", run=run.id, task="long", target="cpu", models=models, budgets={"iterations": 400}, parallel=1
        )
        best = "a0"
        for number in range(attempts):
            best = _attempt(run, journal, number, best, rng)
        journal.tell(
            "run_ended",
            reason="iterations",
            iterations=attempts,
            attempts=attempts,
            kept=1,
            best=best,
            seconds=1.0,
            share_of_limit=0.5,
            speedup=2.0,
            elapsed=9.0,
        )
    return run


def _attempt(run: RunFolder, journal: Journal, number: int, best: str, rng: random.Random) -> str:
    """One more, with what is told around it; the best from then on."""
    name, parent = f"a{number}", None if number == 0 else rng.choice([best, f"a{rng.randrange(number)}"])
    kernel = Kernel(language="cpp", files={"kernel.cpp": source(rng)})
    failed, kept = number % 3 == 1, number % 9 == 0
    verdict = rejected(kernel) if failed else built(accepted(kernel, 4e-3 * 0.995**number))
    outcome: Outcome = "rejected" if failed else "kept" if kept else "slower"
    idea = {"idea": "fewer trips", "change": f"Stage tiles of {number} in the cache", "metric": "seconds"}
    idea |= {"expected": "-20 %", "kind": "tiling"}
    measured: dict[str, float] = (
        {"seconds": verdict.seconds, "share_of_limit": verdict.share_of_limit, "speedup": verdict.speedup}
        if isinstance(verdict, Accepted)
        else {}
    )
    attempt = Attempt(
        id=name,
        parent=parent,
        iteration=number,
        kernel_id=kernel.id,
        kernel=kernel.model_dump(mode="json"),
        hypothesis=None if number == 0 else {**idea, "parent": parent},
        change=f"edited kernel.cpp (+{number} -3)",
        outcome=outcome,
        note="wrong result in row 3" if failed else "",
        judged_at=1.8e9 + number,
        device_seconds=1.5,
        **measured,
    )
    if number:
        journal.tell("iteration_started", iteration=number, iterations=400)
        journal.tell("hypothesis", iteration=number, parent=parent, lessons=[], **idea)
    run.add_attempt(attempt, kernel.files, verdict.model_dump(mode="json"))
    fields = attempt.model_dump(
        mode="json", include={"parent", "iteration", "change", "outcome", "note", "device_seconds"}
    )
    journal.tell("attempt_judged", attempt=name, kernel=kernel.id, **fields, **measured)
    if kept:
        journal.tell("best_changed", attempt=name, iteration=number, gain=1.0, **measured)
        run.add_profile(name, profile(kernel.id).model_dump(mode="json"))
    for tool in ("compile", "run", "search", "profile"):
        about = {"seconds": 0.5, "call": f"{number}-{tool}", "answer": "0" * 32, "device_seconds": 0.5}
        journal.tell("tool_called", role="coder", tool=tool, ok=True, error=None, **about)
    return name if kept else best


def built(verdict: Accepted) -> Accepted:
    """With the compiler's command, as an export wants it."""
    report = BuildReport(kernel=verdict.kernel, built=True, seconds=0.2, command=("c++", "kernel.cpp"))
    stages = [s.model_copy(update={"build": report}) if s.stage == "build" else s for s in verdict.stages]
    return verdict.model_copy(update={"stages": tuple(stages)})


def source(rng: random.Random) -> str:
    """Of 4 to 30 KB."""
    size, rows = rng.randrange(4_000, 30_000), ['#include "task.h"', "// tune: BLOCK = 16,32,64"]
    while size > 0:
        i, j = rng.randrange(64), rng.randrange(512)
        rows.append(f"    acc[{i}] = __builtin_fmaf(a[{j}], b[{i}], acc[{i}]);  // lane {i} holds column {j}")
        size -= len(rows[-1]) + 1
    return "\n".join([*rows, 'extern "C" void solve(const task::Args& args, void*) {}', ""])


class Terminal:
    """A session on a pseudo-terminal."""

    def __init__(self, run: RunFolder) -> None:
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        command = [sys.executable, "-P", "-m", "app.start", "session", "--attach", str(run.path)]
        environment = os.environ | {"TERM": "xterm-256color", "PYTHONPATH": str(Path(__file__).parent.parent)}
        environment |= {"ESCDELAY": f"{ESCAPE_WAIT * 1000:.0f}"}  # whether the machine is a near one or not
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self._terminal = ours

    def press(self, key: bytes, patience: float = 2.0, quiet: float = QUIET) -> tuple[float, float] | None:
        """Milliseconds from a key to the first and to the last byte that followed; None when nothing did."""
        started = time.perf_counter()
        first = last = None
        os.write(self._terminal, key)
        while True:
            wait = patience if last is None else quiet
            if not select.select([self._terminal], [], [], wait)[0]:
                break
            os.read(self._terminal, 1 << 16)
            last = (time.perf_counter() - started) * 1000
            first = last if first is None else first
        return None if first is None or last is None else (first, last)

    def type(self, keys: bytes, until: str, patience: float) -> bool:
        """Write these at once, and read until the screen was sent that text; False when it was not within so many
        seconds."""
        os.write(self._terminal, keys)
        seen, end = b"", time.monotonic() + patience
        while until.encode() not in _ESCAPE.sub(b"", seen):
            if not select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))[0]:
                return False
            seen += os.read(self._terminal, 1 << 16)
        return True

    def close(self) -> None:
        """Take the terminal away from under it."""
        os.close(self._terminal)

    def leave(self) -> int:
        """Close it; its memory in MB before."""
        used = int(psutil.Process(self.process.pid).memory_info().rss)
        time.sleep(0.5)  # an escape and a letter right after it would be one key
        os.write(self._terminal, b"q")
        while self.process.poll() is None:
            if select.select([self._terminal], [], [], 0.1)[0]:
                try:
                    os.read(self._terminal, 1 << 16)
                except OSError:
                    break
        self.process.wait(10)
        return used >> 20

    @property
    def cpu_ms(self) -> float:
        """What all threads of its process used so far."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6


def measure(attempts: int, rounds: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as root:
        run = make_run(Path(root), attempts)
        started = time.perf_counter()
        terminal = Terminal(run)
        try:
            return _measured(terminal, attempts, rounds, started)
        finally:
            terminal.process.kill()  # one that was interrupted must not stay behind


def _measured(terminal: Terminal, attempts: int, rounds: int, started: float) -> dict[str, object]:
    terminal.press(b"", patience=60, quiet=1.5)
    opened = time.perf_counter() - started - 1.5
    by_key: dict[str, list[tuple[float, float]]] = {}
    used: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, key in KEYS:
            before = terminal.cpu_ms
            took = terminal.press(key)
            used.setdefault(name, []).append(terminal.cpu_ms - before)
            if took is not None:
                late = ESCAPE_WAIT * 1000 if key == b"\x1b" else 0.0
                by_key.setdefault(name, []).append((took[0] - late, took[1] - late))
    before = terminal.cpu_ms
    time.sleep(IDLE)
    idle = (terminal.cpu_ms - before) / (IDLE * 10)
    last = {name: _figures([last for _, last in all_of]) for name, all_of in by_key.items()}
    all_used = [spent for all_of in used.values() for spent in all_of]
    return {
        "attempts": attempts,
        "whole_screen_seconds": round(opened, 2),
        "keys": sum(map(len, by_key.values())),
        "first_byte": _figures([first for all_of in by_key.values() for first, _ in all_of]),
        "last_byte": _figures([last for all_of in by_key.values() for _, last in all_of]),
        "cpu_ms_a_key": round(statistics.mean(all_used), 1),
        "cpu_ms_by_key": {name: round(statistics.median(all_of), 1) for name, all_of in used.items()},
        "idle_percent_of_a_core": round(idle, 2),
        "last_byte_by_key": last,
        "over_bound": [name for name, figures in last.items() if figures["median_ms"] >= BOUND_MS],
        "memory_mb": terminal.leave(),
    }


def _figures(took: Sequence[float]) -> dict[str, float]:
    ordered = sorted(took)
    late = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {
        "median_ms": round(statistics.median(ordered), 1),
        "p95_ms": round(late, 1),
        "worst_ms": round(ordered[-1], 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--attempts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    found = measure(options.attempts, options.rounds)
    print(json.dumps(found, indent=1))
    last = found["last_byte"]
    return 0 if isinstance(last, dict) and last["median_ms"] < BOUND_MS else 1


if __name__ == "__main__":
    sys.exit(main())
