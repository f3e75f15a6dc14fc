"""Why evaluations of one kernel differ: what is kept the same from one measurement to the next, and how far they lie
apart then. And how often a kernel that races against itself is called faster.

    python -P tests/h200/spread_parts_on_gpu.py [addresses worker process wide itself]

Runs where warpsmith, PyCUDA, the CUDA toolkit and a GPU are; writes `<section>.json` to $OUT (else ./out), with chip,
driver and date, to be kept under tests/golden/h200/speed/. Exit status 1 when a section failed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from recording import Report, Sections, asked_of, each_run, machine, out_folder, parser_of, write  # noqa: E402

from tools.judge import Judge, open_task  # noqa: E402
from tools.race import Inspection, Race, Terms  # noqa: E402
from tools.records import Accepted, Kernel  # noqa: E402
from tools.runner import Runner  # noqa: E402
from tools.targets.base import Build  # noqa: E402
from tools.targets.cuda import CudaTarget  # noqa: E402
from tools.targets.cuda_workplace import nvcc  # noqa: E402
from tools.task import TaskSource, read_task  # noqa: E402

SECTIONS = Sections()
TIMES, RACES, PROGRAMS = 12, 10, 4
TERMS = Terms(seconds=0.2, least=24, most=120)
WIDE = {"THREADS": "256", "VECTOR": "4"}
Samples = dict[str, list[list[float]]]
"""Of each workload, the times of the calls of each measurement."""


def softmax() -> tuple[TaskSource, Kernel]:
    source = read_task(ROOT / "examples/softmax")
    return source, source.start["cuda"]


@contextmanager
def ready(**defines: str) -> Iterator[tuple[Judge, Build]]:
    source, kernel = softmax()
    with open_task(source, "cuda") as judge:
        yield judge, judge.build_variant(kernel.model_copy(update={"defines": defines}), "release")


def timed(judge: Judge, runner: Runner, found: Samples) -> None:
    """Add the times of some calls on each workload."""
    runner.drop_readings()
    race = Race(judge.content, [runner], Inspection(runner))
    race.warm_up(list(range(len(judge.names))))
    for workload in judge.shuffled_workloads():
        race.run(workload, TERMS)
        found.setdefault(judge.names[workload], []).append(runner.seconds(workload))


def apart(found: Samples) -> Report:
    medians = {name: [statistics.median(times) for times in rows] for name, rows in found.items()}
    shares = {name: (max(times) - min(times)) / statistics.median(times) for name, times in medians.items()}
    deciles = {name: [statistics.quantiles(times, n=10) for times in rows] for name, rows in found.items()}
    return {"seconds": medians, "spread": shares, "deciles": deciles}


def in_workers(judge: Judge, build: Build) -> Report:
    """A new worker each time."""
    found: Samples = {}
    with judge.lock():
        for _ in range(TIMES):
            with judge.runner(build) as runner:
                timed(judge, runner, found)
    return apart(found)


@SECTIONS.section
def addresses() -> Report:
    """A program without a judge: the same memory at other addresses, and other memory at the same ones."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "addresses"
        source = Path(__file__).with_name("addresses.cu")
        subprocess.run([*nvcc(CudaTarget().architecture), "-O3", str(source), "-o", str(program), "-ldl"], check=True)
        ran = [subprocess.run([str(program)], check=True, capture_output=True, text=True) for _ in range(PROGRAMS)]
    rows = [json.loads(each.stdout) for each in ran]
    return {name: [row[name] for row in rows] for name in rows[0]}


@SECTIONS.section
def worker() -> Report:
    """One worker, again and again: all is the same but the content."""
    found: Samples = {}
    with ready() as (judge, build), judge.lock(), judge.runner(build) as runner:
        for _ in range(TIMES):
            timed(judge, runner, found)
    return apart(found)


@SECTIONS.section
def process() -> Report:
    """A new worker with new memory for its outputs each time, as evaluations have them."""
    with ready() as (judge, build):
        return in_workers(judge, build)


@SECTIONS.section
def wide() -> Report:
    """As `process`, of a kernel with more threads in a block and wider loads."""
    with ready(**WIDE) as (judge, build):
        return in_workers(judge, build)


@SECTIONS.section
def itself() -> Report:
    """Verdicts of a kernel whose incumbent is itself, on the workload of the shortest calls alone."""
    source, kernel = softmax()
    source = source.model_copy(update={"workloads": source.workloads[-1:]})
    rows: list[Report] = []
    with open_task(source, "cuda") as judge:
        for _ in range(RACES):
            note = {"note.h": f"// {time.time_ns()}\n"}
            again = kernel.model_copy(update={"files": {**kernel.files, **note}})
            verdict = judge.evaluate(again, kernel)
            comparison = verdict.comparison if isinstance(verdict, Accepted) else None
            rows.append(
                {"status": verdict.status, "comparison": comparison.model_dump(mode="json") if comparison else None}
            )
    faster = sum(row["comparison"] is not None and row["comparison"]["decision"] == "faster" for row in rows)
    return {"rows": rows, "called_faster": faster, "races": len(rows)}


def told(found: Report) -> Report:
    """What fits into a line."""
    return {name: value for name, value in found.items() if name not in ("rows", "deciles", "seconds")}


def main() -> int:
    """Run the sections that are named, else all; each leaves its record as soon as it is done."""
    asked = asked_of(parser_of(__doc__, SECTIONS), SECTIONS).sections
    out, about, fine = out_folder(), machine(CudaTarget().toolchain()["compiler"]), True
    for name, found, seconds in each_run({n: SECTIONS[n] for n in asked}, lambda text: {"failed": text}):
        write(out / f"{name}.json", {**about, "seconds": seconds, name: found})
        print(name, told(found), f"({seconds:.1f}s)", flush=True)
        fine = fine and "failed" not in found
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main())
