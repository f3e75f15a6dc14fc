"""The judge on a real GPU: every example, every fixture beside tests/kernels/cuda.toml, spread, time to verdict, a run.

    python -P tests/h200/judge_on_gpu.py [examples fixtures torch_fixtures spread speed autotune]

Runs where warpsmith, PyCUDA and a GPU are; writes `judge_<section>.json` to $OUT (else ./out), which are kept
under tests/golden/h200/ and from which the CI replays the judge's logic. Exit status 1 when a
verdict is not the expected one.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from recording import Report, Sections, asked_of, each_run, gpu, out_folder, parser_of, today, write  # noqa: E402

from tools.cache import cache_dir  # noqa: E402
from tools.errors import WarpsmithError  # noqa: E402
from tools.judge import Judge, open_task  # noqa: E402
from tools.records import Accepted, Kernel, Verdict  # noqa: E402
from tools.task import TaskSource, read_kernel, read_task  # noqa: E402

KERNELS, GOLDEN = ROOT / "tests/kernels", ROOT / "tests/golden/h200/judge"
PROCESSES = 2
"""That judge fixtures at the same time."""
REPEATS, CALLS = 12, 40
"""Whole evaluations, and single calls, of one kernel."""
SECTIONS = Sections()


@SECTIONS.section
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


@SECTIONS.section
def fixtures() -> Report:
    """The wrong, cheating and faulting kernels beside tests/kernels/cuda.toml, and their twins."""
    expected = tomllib.loads((KERNELS / "cuda.toml").read_text())
    return judged_fixtures("fixtures", expected, lambda name: read_kernel(KERNELS / expected[name].get("kernel", name)))


@SECTIONS.section
def torch_fixtures() -> Report:
    """The same beside tests/kernels/torch.toml."""
    manifest = tomllib.loads((KERNELS / "torch.toml").read_text())
    expected = {name: row for name, row in manifest.items() if row.get("target") != "cpu"}

    def kernel(name: str) -> Kernel:
        files = {"kernel.py": f"{expected[name].get('kernel', name)}.py", "rows.py": "rows.py"}
        return Kernel(language="torch", files={n: (KERNELS / "torch" / file).read_text() for n, file in files.items()})

    return judged_fixtures("torch_fixtures", expected, kernel)


def judged_fixtures(section: str, expected: dict[str, Report], kernel: Callable[[str], Kernel]) -> Report:
    """The verdict on every row of a manifest, whether it is the expected one, and how many cheats were believed.

    Several processes judge at once, and take turns with the device as all judges do; each writes what it has after
    every row, in a folder of its own, so that nothing is lost when time is up. ONLY names rows instead, for this
    process alone: patterns with commas between. NEW=1 leaves out what is recorded as expected.
    """
    if "ONLY" in os.environ:
        patterns = os.environ["ONLY"].split(",")
        rows = {n: row for n, row in expected.items() if any(fnmatch.fnmatch(n, p) for p in patterns)}
        return judged_rows(section, rows, kernel)
    if "NEW" in os.environ:
        record = GOLDEN / f"{section}.json"
        known = json.loads(record.read_text())[section] if record.is_file() else {}
        expected = {n: row for n, row in expected.items() if not known.get(n, {}).get("as_expected")}
    children = []
    for number, part in enumerate(shares(expected)):
        out = out_folder() / f"{section}_{number}"
        settings = {**os.environ, "ONLY": ",".join(part), "OUT": str(out)}
        children.append((out, subprocess.Popen([sys.executable, "-P", __file__, section], env=settings)))
    found: Report = {}
    for out, child in children:
        child.wait()
        written = out / f"judge_{section}.json"
        found |= json.loads(written.read_text())[section] if written.is_file() else {}
    found = {name: found[name] for name in expected if name in found}
    cheats = [name for name in found if "stage" in expected[name]]
    believed = [name for name in cheats if found[name]["verdict"]["status"] == "accepted"]
    print(f"{len(found)} of {len(expected)} rows judged", flush=True)
    print(f"{len(believed)} of {len(cheats)} cheats were believed: {', '.join(believed) or 'none'}", flush=True)
    return found


def shares(expected: dict[str, Report]) -> list[list[str]]:
    """The rows for each process: what is slow to build alone, other tasks together, and the rest evenly."""
    slow = [[name] for name, row in expected.items() if row.get("slow")]
    others = [name for name, row in expected.items() if row.get("task") and not row.get("slow")]
    rest = [name for name, row in expected.items() if not row.get("task") and not row.get("slow")]
    rest.sort(key=lambda name: "stage" in expected[name])  # those that pass all stages take longest
    return [part for part in (*slow, others, *(rest[n::PROCESSES] for n in range(PROCESSES))) if part]


def judged_rows(section: str, expected: dict[str, Report], kernel: Callable[[str], Kernel]) -> Report:
    """One judge for each task and policy, one kernel after the other."""
    found: Report = {}
    by_task: dict[tuple[str, str], list[str]] = {}
    for name, row in expected.items():
        by_task.setdefault((row.get("task", ""), row.get("policy", "strict")), []).append(name)
    for (task, policy), names in by_task.items():
        with open_task(fixture_task(task).model_copy(update={"policy": policy}), "cuda") as judge:
            build_all(judge, [kernel(name) for name in names])
            for name in names:
                row = judged(judge, kernel(name))
                row["as_expected"] = as_expected(row["verdict"], expected[name])
                report(name, row)
                found[name] = {**row, "verdict": shortened(name, row["verdict"])}
                keep(section, found)
    return found


def fixture_task(name: str) -> TaskSource:
    """A task of the tests', or the example that most fixtures are for."""
    places = [ROOT / "tests/tasks_adversary" / name, ROOT / "tests/tasks" / f"{name}.py", ROOT / "examples/softmax"]
    return read_task(next(place for place in places if (name and place.exists()) or place == places[-1]))


def build_all(judge: Judge, kernels: list[Kernel]) -> None:
    """Fill the build cache, on all cores at once; what does not build says so again when it is judged."""

    def build(kernel: Kernel) -> None:
        with contextlib.suppress(WarpsmithError):
            judge.build_variant(kernel, "release")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(build, kernels))


def shortened(name: str, verdict: Report) -> Report:
    """A verdict without what differs from machine to machine: paths, ids, commands, what a compiler said."""
    dropped: Report = {"command": [], "stderr": "", "build": None, "exit_code": None}
    stages = [
        {**stage, **dropped, "stdout": "" if stage["passed"] else placeless(stage["stdout"]), "details": {}}
        if stage["stage"] in ("screen", "build", "open")
        else {**stage, **dropped, "stdout": "" if stage["passed"] else placeless(stage["stdout"])}
        for stage in verdict["stages"]
    ]
    return {**verdict, "kernel": name, "stages": stages}


def placeless(text: str) -> str:
    """Without where this checkout and the cache are."""
    return text.replace(f"{ROOT}/", "").replace(str(cache_dir()), "CACHE")


@SECTIONS.section
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


@SECTIONS.section
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


@SECTIONS.section
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
    """What `harmless` says of times is for the tests of the record: they have the twin's."""
    if "stage" not in wanted:
        return bool(verdict["status"] == "accepted")
    stages = [wanted["stage"]] if isinstance(wanted["stage"], str) else wanted["stage"]
    return bool(
        verdict["status"] == "rejected" and verdict["stage"] in stages and verdict["reason"] in wanted["reasons"]
    )


def report(name: str, row: Report) -> None:
    verdict = row["verdict"]
    told = {key: verdict.get(key) for key in ("stage", "reason", "message") if verdict.get(key)}
    times = {t["workload"]: f"{t['seconds'] * 1e6:.1f}us" for t in verdict.get("timings", [])}
    print(name, verdict["status"], row.get("as_expected", ""), told, times, f"{row['seconds']:.1f}s", flush=True)


@functools.cache
def machine() -> Report:
    return {**gpu(), "date": today()}


def keep(name: str, result: Report) -> None:
    write(out_folder() / f"judge_{name}.json", {**machine(), name: result})


def main() -> None:
    """Run the sections that are named, else all."""
    asked = asked_of(parser_of(__doc__, SECTIONS), SECTIONS)
    record: Report = {}
    for name, found, seconds in each_run({n: SECTIONS[n] for n in asked.sections}, lambda text: {"failed": text}):
        record[name] = found
        print(f"-- {name} {seconds:.1f}s", flush=True)
        keep(name, found)
    rows = [row for name, result in record.items() if name.endswith("fixtures") for row in result.values()]
    sys.exit(any(not (isinstance(row, dict) and row.get("as_expected")) for row in rows))


if __name__ == "__main__":
    main()
