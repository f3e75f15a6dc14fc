"""`make bench`: start-up, overhead of an iteration, state, memory and what models are told, against their budgets.

The overhead is measured on 200 iterations of the real graph, run folder and `builtin:autotune` with an executor that
judges at once, so that nothing of compilers and kernels is in the figures. Exits with 1 when one is over its budget.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench import memory, search_index
from tools.records import Kernel
from tools.task import TaskSource

ROOT = Path(__file__).resolve().parent.parent
ITERATIONS = 200


@dataclass(frozen=True)
class Figure:
    """One measured figure and what it must stay under."""

    name: str
    value: float
    budget: float
    unit: str

    @property
    def good(self) -> bool:
        return self.value <= self.budget


def main() -> int:
    figures = [startup(), *long_run(), *(Figure(*row) for row in [*memory.figures(), *search_index.figures()])]
    for figure in figures:
        verdict = "ok" if figure.good else "OVER BUDGET"
        print(f"{figure.name:<58} {figure.value:>10.3f} {figure.unit:<6} (budget {figure.budget:g})  {verdict}")
    out = ROOT / "build" / "bench.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({figure.name: figure.value for figure in figures}, indent=1) + "\n", encoding="utf-8")
    return 0 if all(figure.good for figure in figures) else 1


def startup() -> Figure:
    """`warpsmith --help`, the fastest of seven: a busy machine only adds."""
    command = [str(Path(sys.executable).with_name("warpsmith")), "--help"]
    return Figure("warpsmith --help", min(_seconds(command) for _ in range(7)), 0.3, "s")


def long_run() -> list[Figure]:
    """200 iterations in a process of their own, so that memory is only theirs."""
    argv = [sys.executable, "-c", "from bench.run import measure_long_run; measure_long_run()"]
    done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        Figure("overhead of an iteration, median of the first tenth", found["first"], 0.1, "s"),
        Figure("overhead of an iteration, median of the last tenth", found["last"], 0.1, "s"),
        Figure("last tenth / first tenth", found["last"] / found["first"], 2.0, "x"),
        Figure("state of the graph at the end", found["state"] / 1024, 64, "KB"),
        Figure("checkpoints of the whole run", found["checkpoints"] / 1e6, 20, "MB"),
        Figure("run folder, per attempt", found["folder"] / found["attempts"] / 1024, 64, "KB"),
        Figure("memory of the orchestrator after the run", found["memory"] / 1e6, 300, "MB"),
    ]


def measure_long_run() -> None:
    """Runs in the child: prints one JSON line."""
    from agents.drive import optimize
    from agents.events import Event
    from agents.settings import Budgets, RunSettings
    from memory.runs import RunFolder
    from tests.stub_executor import StubExecutor

    overheads: list[float] = []

    def watch(event: Event) -> None:
        if event.event == "iteration_ended":
            overheads.append(float(str(event.fields["harness_seconds"])))

    budgets = Budgets(iterations=ITERATIONS, near_limit=None, patience=None)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder), "bench", {})
        asyncio.run(optimize(_task(), RunSettings(budgets=budgets), run, StubExecutor(_seconds_of), watch))
        tenth = max(1, len(overheads) // 10)
        database = run.path / "state.sqlite"
        print(
            json.dumps(
                {
                    "first": statistics.median(overheads[:tenth]),
                    "last": statistics.median(overheads[-tenth:]),
                    "state": _largest_state(database),
                    "checkpoints": database.stat().st_size,
                    "folder": sum(p.stat().st_size for p in run.path.rglob("*") if p.is_file() and p != database),
                    "attempts": len(run.attempts()),
                    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                }
            )
        )


def _task() -> TaskSource:
    """A starting kernel with far more settings than iterations, so that the search never runs dry."""
    values = ",".join(str(value) for value in range(1, 65))
    text = '#include "task.h"\n' + "".join(f"// tune: T{i} = {values}\n" for i in range(4)) + "void solve();\n"
    return TaskSource(
        name="bench",
        kind="numpy",
        entry="reference.py",
        files={"reference.py": "def inputs(rng): ...\ndef reference(x): ...\n"},
        start={"cpp": Kernel(language="cpp", files={"kernel.cpp": text})},
    )


def _seconds_of(kernel: Kernel) -> float | None:
    """A bumpy valley; one kernel in eleven is rejected."""
    number = int(kernel.id, 16)
    return None if number % 11 == 0 else 0.5 + sum(abs(int(v) - 40) for v in kernel.defines.values()) / 500


def _largest_state(database: Path) -> int:
    """Bytes of the largest checkpoint row."""
    with sqlite3.connect(database) as connection:
        return int(connection.execute("SELECT max(length(checkpoint)) FROM checkpoints").fetchone()[0])


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
