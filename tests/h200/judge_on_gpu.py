"""The judge on a real GPU: every example, every fixture beside tests/kernels/cuda.toml, spread, time to verdict, a run.

    python -P tests/h200/judge_on_gpu.py [examples fixtures spread speed autotune]

Runs where warpsmith, PyCUDA and a GPU are; writes `judge_<section>.json` to $OUT (else ./out), which are kept
under tests/golden/h200/ and from which the CI replays the judge's logic. Exit status 1 when a
verdict is not the expected one.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.judge import Judge, open_task  # noqa: E402
from tools.records import Accepted, Kernel, Verdict  # noqa: E402
from tools.task import read_kernel, read_task  # noqa: E402

Report = dict[str, Any]
REPEATS, CALLS = 12, 40
"""Whole evaluations, and single calls, of one kernel."""
SECTIONS: dict[str, Callable[[], Report]] = {}


def section(function: Callable[[], Report]) -> Callable[[], Report]:
    SECTIONS[function.__name__] = function
    return function


@section
def examples() -> Report:
    """The starting kernel of every example."""
    found: Report = {}
    for path in sorted((ROOT / "examples").glob("*/task.toml")):
        source = read_task(path.parent)
        begin = time.perf_counter()
        with open_task(source, "cuda") as judge:
            opened = time.perf_counter() - begin
            row = judged(judge, source.start["cuda"])
            found[source.name] = {**row, "open_seconds": opened, "facts": judge.facts.model_dump(mode="json")}
        report(source.name, row)
    return found


@section
def fixtures() -> Report:
    """The wrong, cheating and faulting kernels and their twins, one after the other in one judge."""
    expected = tomllib.loads((ROOT / "tests/kernels/cuda.toml").read_text())
    found: Report = {}
    with open_task(read_task(ROOT / "examples/softmax"), "cuda") as judge:
        import pycuda.driver as cuda

        for name, wanted in expected.items():
            before = cuda.mem_get_info()[0]
            row = judged(judge, read_kernel(ROOT / "tests/kernels" / name))
            row["free_bytes"] = {"before": before, "after": cuda.mem_get_info()[0]}
            row["as_expected"] = as_expected(row["verdict"], wanted)
            found[name] = row
            report(name, row)
        found["cuda_honest_again"] = judged(judge, read_kernel(ROOT / "tests/kernels/cuda_honest"))
        found["cuda_honest_again"]["as_expected"] = as_expected(found["cuda_honest_again"]["verdict"], {})
        report("cuda_honest_again", found["cuda_honest_again"])
    return found


@section
def spread() -> Report:
    """One kernel evaluated again and again, and the raw readings of both clocks."""
    source = read_task(ROOT / "examples/softmax")
    kernel = source.start["cuda"]
    seconds: dict[str, list[float]] = {}
    with open_task(source, "cuda") as judge:
        for _ in range(REPEATS):
            verdict = judge.evaluate(kernel)
            if isinstance(verdict, Accepted):
                for timing in verdict.timings:
                    seconds.setdefault(timing.workload, []).append(timing.seconds)
        spread = {name: (max(values) - min(values)) / statistics.median(values) for name, values in seconds.items()}
        print("spread", spread, flush=True)
        with judge.lock(), judge.runner(judge.build_variant(kernel, "release")) as runner:
            for _ in range(CALLS):
                runner.call(judge.content.fresh(0))
            clocks = runner.clocks(0)
    return {
        "seconds": seconds,
        "spread": spread,
        "readings": [(reading.inner, reading.outer) for reading in clocks.readings],
        "round_trips": clocks.round_trips,
    }


@section
def speed() -> Report:
    """Source to verdict with a warm judge: the compiler's share, the device's, and the harness's own."""
    source = read_task(ROOT / "examples/softmax")
    rows = []
    with open_task(source, "cuda") as judge:
        judge.evaluate(source.start["cuda"])
        for threads in ("64", "256", "512"):
            kernel = source.start["cuda"].model_copy(update={"defines": {"THREADS": threads, "VECTOR": "4"}})
            kernel = kernel.model_copy(update={"files": {**kernel.files, "note.h": f"// {time.time_ns()}\n"}})
            begin = time.perf_counter()
            verdict = judge.evaluate(kernel)
            whole = time.perf_counter() - begin
            stages = {stage.stage: stage.seconds for stage in verdict.stages}
            rows.append({"status": verdict.status, "whole_seconds": whole, "stages": stages})
            print("speed", verdict.status, round(whole, 2), {k: round(v, 2) for k, v in stages.items()}, flush=True)
    return {"rows": rows}


@section
def autotune() -> Report:
    """`warpsmith check` and a short `optimize` through the ordinary command line."""
    found: Report = {}
    with tempfile.TemporaryDirectory() as folder:
        cli = [sys.executable, "-P", "-m", "app.start"]
        commands = {
            "check": [*cli, "check", "examples/softmax", "examples/softmax/kernel.cu", "--json"],
            "optimize": [
                *cli,
                "optimize",
                "examples/softmax",
                "--target",
                "cuda",
                "--iterations",
                "6",
                "--runs",
                folder,
                "--json",
            ],
        }
        for name, command in commands.items():
            begin = time.perf_counter()
            ran = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                check=False,
                text=True,
                timeout=240,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
            )
            found[name] = {
                "exit_code": ran.returncode,
                "seconds": time.perf_counter() - begin,
                "stdout": ran.stdout[-6000:],
                "stderr": ran.stderr[-2000:],
            }
            print(name, ran.returncode, ran.stdout[-600:], ran.stderr[-600:], flush=True)
    return found


def judged(judge: Judge, kernel: Kernel) -> Report:
    """One evaluation as plain data."""
    begin = time.perf_counter()
    verdict: Verdict = judge.evaluate(kernel)
    return {"verdict": verdict.model_dump(mode="json"), "seconds": time.perf_counter() - begin}


def as_expected(verdict: Report, wanted: Report) -> bool:
    if "stage" not in wanted:
        return bool(verdict["status"] == "accepted")
    return bool(
        verdict["status"] == "rejected"
        and verdict["stage"] == wanted["stage"]
        and verdict["reason"] in wanted["reasons"]
    )


def report(name: str, row: Report) -> None:
    verdict = row["verdict"]
    told = {key: verdict.get(key) for key in ("stage", "reason", "message") if verdict.get(key)}
    times = {t["workload"]: f"{t['seconds'] * 1e6:.1f}us" for t in verdict.get("timings", [])}
    print(name, verdict["status"], row.get("as_expected", ""), told, times, f"{row['seconds']:.1f}s", flush=True)


def main() -> None:
    """Run the sections that are named, else all."""
    wanted = sys.argv[1:] or list(SECTIONS)
    out = Path(os.environ.get("OUT", "out"))
    out.mkdir(parents=True, exist_ok=True)
    smi = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    )
    chip, driver = smi.stdout.strip().splitlines()[0].split(", ")
    machine: Report = {"chip": chip, "driver": driver, "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    record: Report = {}
    for name in wanted:
        begin = time.perf_counter()
        try:
            record[name] = SECTIONS[name]()
        except Exception:  # noqa: BLE001 - the other sections are still worth their device time
            traceback.print_exc()
            record[name] = {"failed": traceback.format_exc()[-2000:]}
        print(f"-- {name} {time.perf_counter() - begin:.1f}s", flush=True)
        (out / f"judge_{name}.json").write_text(json.dumps({**machine, name: record[name]}, indent=1) + "\n")
    rows = record.get("fixtures", {})
    sys.exit(any(not row.get("as_expected", False) for row in rows.values() if isinstance(row, dict)))


if __name__ == "__main__":
    main()
