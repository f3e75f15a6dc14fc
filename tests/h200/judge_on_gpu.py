"""The judge on a real GPU: every example, every fixture beside tests/kernels/cuda.toml, spread, time to verdict, a run.

    python -P tests/h200/judge_on_gpu.py [examples fixtures beside torch_fixtures invalid spread speed autotune]

Runs where warpsmith, PyCUDA and a GPU are; writes `judge_<section>.json` to $OUT (else ./out), which are kept
under tests/golden/h200/ and from which the CI replays the judge's logic. Exit status 1 when a
verdict is not the expected one.
"""

from __future__ import annotations

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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from aftermath import Aftermath  # noqa: E402
from fixture_rows import (  # noqa: E402
    build_all,
    chosen,
    failed_row,
    fixture_task,
    judged,
    judged_row,
    native_kernel,
    native_rows,
    report,
    setting,
)
from invalid_settings import invalid_settings  # noqa: E402
from recording import Report, Sections, asked_of, each_run, gpu, out_folder, parser_of, today, write  # noqa: E402

from tools.judge import open_task  # noqa: E402
from tools.records import Accepted, Kernel  # noqa: E402
from tools.task import read_task  # noqa: E402

KERNELS, GOLDEN = ROOT / "tests/kernels", ROOT / "tests/golden/h200/judge"
PROCESSES = {"fixtures": 4, "torch_fixtures": 4}
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
    """The wrong and cheating kernels beside tests/kernels/cuda.toml, and their twins; not what `beside` judges."""
    expected = {name: row for name, row in native_rows().items() if not row.get("fault")}
    return judged_fixtures("fixtures", expected, native_kernel)


@SECTIONS.section
def beside() -> Report:
    """The faults beside tests/kernels/cuda.toml, alone on the device but for another judge's worker: whether that one
    goes on and stays right, whether the device's memory is free again, and the next verdict on an honest kernel."""
    found: Report = {}
    aftermath = Aftermath()
    try:
        for name, row in chosen({n: row for n, row in native_rows().items() if row.get("fault")}).items():
            found[name] = aftermath.of(name, row)
            report(name, found[name])
            keep("beside", found)
    finally:
        aftermath.close()
    return found


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
        return judged_rows(section, chosen(expected), kernel)
    if "NEW" in os.environ:
        record = GOLDEN / f"{section}.json"
        known = json.loads(record.read_text())[section] if record.is_file() else {}
        expected = {n: row for n, row in expected.items() if not known.get(n, {}).get("as_expected")}
    children = []
    for number, part in enumerate(shares(expected, PROCESSES[section])):
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
    believed = [name for name in cheats if found[name].get("verdict", {}).get("status") == "accepted"]
    unjudged = [name for name in expected if "verdict" not in found.get(name, {})]
    print(f"{len(expected) - len(unjudged)} of {len(expected)} rows judged; not: {unjudged or 'none'}", flush=True)
    print(f"{len(believed)} of {len(cheats)} cheats were believed: {', '.join(believed) or 'none'}", flush=True)
    return found


def shares(expected: dict[str, Report], processes: int) -> list[list[str]]:
    """The rows for each process: what is slow to build alone, other tasks together, and the rest evenly."""
    slow = [[name] for name, row in expected.items() if row.get("slow")]
    apart = [name for name, row in expected.items() if not row.get("slow") and setting(row) != setting({})]
    rest = [name for name, row in expected.items() if not row.get("slow") and setting(row) == setting({})]
    rest.sort(key=lambda name: "stage" in expected[name])  # those that pass all stages take longest
    return [part for part in (*slow, apart, *(rest[n::processes] for n in range(processes))) if part]


def judged_rows(section: str, expected: dict[str, Report], kernel: Callable[[str], Kernel]) -> Report:
    """One judge for each task, policy and libraries, one kernel after the other. What can't be judged says why."""
    found: Report = {}
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for name, row in expected.items():
        groups.setdefault(setting(row), []).append(name)
    for (task, policy, libraries), names in groups.items():
        source = fixture_task(task).model_copy(update={"policy": policy, "libraries": libraries})
        begin = time.perf_counter()
        try:
            with open_task(source, "cuda") as judge:
                build_all(judge, [kernel(name) for name in names])
                for name in names:
                    found[name] = judged_row(judge, name, kernel(name), expected[name])
                    keep(section, found)
        except Exception as error:  # noqa: BLE001 - the other rows are still worth their device time
            found |= {name: failed_row(error, begin) for name in names if name not in found}
            keep(section, found)
    return found


@SECTIONS.section
def invalid() -> Report:
    """A sweep over settings of which some can't be launched: what was refused before it was built, and what was not."""
    return invalid_settings()


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


@functools.cache
def machine() -> Report:
    return {**gpu(), "date": today()}


def keep(name: str, result: Report) -> None:
    write(out_folder() / f"judge_{name}.json", {**machine(), name: result})


def main() -> None:
    """Run the sections that are named, else all; exit status 1 when one failed or a row is not as expected."""
    asked = asked_of(parser_of(__doc__, SECTIONS), SECTIONS)
    record: Report = {}
    for name, found, seconds in each_run({n: SECTIONS[n] for n in asked.sections}, lambda text: {"failed": text}):
        record[name] = found
        print(f"-- {name} {seconds:.1f}s", flush=True)
        keep(name, found)
    of_rows = ("fixtures", "beside", "torch_fixtures")
    rows = [row for name, result in record.items() if name in of_rows for row in result.values()]
    failed = any("failed" in result for result in record.values())
    sys.exit(failed or any(not (isinstance(row, dict) and row.get("as_expected")) for row in rows))


if __name__ == "__main__":
    main()
