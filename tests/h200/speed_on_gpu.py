"""How long judging takes on a real GPU, and what it is worth: verdicts, many variants, sweeps, spread, whole runs.

    python -P tests/h200/speed_on_gpu.py [speed quick30 versus_inline tune spread autotune profile]

Runs where warpsmith, PyCUDA, the CUDA toolkit and a GPU are (`versus_inline` needs torch as well); writes
`<section>.json` to $OUT (else ./out), with chip, driver and date, to be kept under tests/golden/h200/speed/.
Exit status 1 when a section saw something that it should not.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import zoo_on_gpu  # noqa: E402
from instruments import commands, measured, utilisation  # noqa: E402
from recording import Report, Sections, asked_of, each_run, machine, out_folder, parser_of, write  # noqa: E402
from whole_runs import ITERATIONS, RUN_SECONDS, optimized  # noqa: E402

from tools.executor import LocalExecutor  # noqa: E402
from tools.judge import Judge, open_task  # noqa: E402
from tools.profilers.cuda import profile_kernel  # noqa: E402
from tools.records import Accepted, Kernel, Verdict  # noqa: E402
from tools.targets.cuda import CudaTarget  # noqa: E402
from tools.task import TaskSource, read_task  # noqa: E402
from tools.tune import tune as sweep  # noqa: E402

SECTIONS = Sections()
VERDICTS, VARIANTS, TRIALS, REPEATS = 4, 30, 200, 20
WHOLE_ALLOWED, OWN_ALLOWED, APART_ALLOWED, RATIO_WANTED = 4.0, 1.0, 0.02, 8.0
ROWS = COLUMNS = 8192
SETTINGS = {"THREADS": "512", "VECTOR": "4"}
AT_ONCE = 2
MODEL = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand({rows}, {columns})]


def get_init_inputs():
    return []
"""


def fresh(kernel: Kernel, **defines: str) -> Kernel:
    """The same kernel with a source that no cache has seen."""
    note = f"// {time.time_ns()}\n"
    files = {**kernel.files, "note.h": note}
    return kernel.model_copy(update={"files": files, "defines": {**kernel.defines, **defines}})


def softmax() -> tuple[TaskSource, Kernel]:
    source = read_task(ROOT / "examples/softmax")
    return source, source.start["cuda"]


# ------------------------------------------------------------------------------------------------------------- verdict


def budget(judge: Judge, kernel: Kernel) -> Report:
    """One verdict from a new source, stage by stage, and what of it is the harness's own."""
    with measured() as parts:
        begin = time.perf_counter()
        verdict: Verdict = judge.evaluate(kernel)
        whole = time.perf_counter() - begin
    compiler = sum(stage.build.seconds for stage in getattr(verdict, "stages", ()) if stage.build is not None)
    times = [{"workload": t.workload, "seconds": t.seconds, "samples": t.samples} for t in timings(verdict)]
    return {
        "status": verdict.status,
        "message": getattr(verdict, "message", ""),
        "whole_seconds": whole,
        "own_seconds": whole - compiler - sum(parts.values()),
        "compiler_seconds": compiler,
        "parts": parts,
        "stages": {stage.stage: stage.seconds for stage in getattr(verdict, "stages", ())},
        "times": times,
    }


def timings(verdict: Verdict) -> Sequence[Any]:
    return verdict.timings if isinstance(verdict, Accepted) else ()


@SECTIONS.section
def speed() -> Report:
    """Source to verdict of a small kernel with a warm judge."""
    source, kernel = softmax()
    with open_task(source, "cuda") as judge:
        judge.evaluate(kernel)
        rows = [budget(judge, fresh(kernel, THREADS=threads, VECTOR="4")) for threads in ("64", "128", "256", "512")]
    for row in rows:
        print("speed", row["status"], row["message"], f"{row['whole_seconds']:.2f}s own {row['own_seconds']:.2f}s",
              {name: round(value, 2) for name, value in (row["stages"] | row["parts"]).items()},
              [(t["samples"], t["seconds"]) for t in row["times"]], flush=True)  # fmt: skip
    whole, own = (statistics.median(row[name] for row in rows) for name in ("whole_seconds", "own_seconds"))
    faults = [] if all(row["status"] == "accepted" for row in rows) else ["not accepted"]
    faults += [f"{whole:.1f} s"] if whole > WHOLE_ALLOWED else []
    faults += [f"{own:.1f} s of its own"] if own > OWN_ALLOWED else []
    return {"rows": rows, "whole_seconds": whole, "own_seconds": own, "faults": faults}


# ---------------------------------------------------------------------------------------------------------- many, quick


@SECTIONS.section
def quick30() -> Report:
    """Thirty variants in one call: beside it their builds alone, and the call alone once they are built."""
    source, kernel = softmax()
    with open_task(source, "cuda") as judge:
        judge.quick([kernel])

        def variants() -> list[Kernel]:
            return [fresh(kernel, THREADS=str(32 * (1 + n % 15)), VECTOR="124"[n // 15]) for n in range(VARIANTS)]

        seconds: dict[str, float] = {}
        begin = time.perf_counter()
        wait([judge.compilers.take(each) for each in variants()])
        seconds["builds"] = time.perf_counter() - begin
        asked = variants()
        for name in ("together", "timings"):
            begin = time.perf_counter()
            results = judge.quick(asked, kernel)
            seconds[name] = time.perf_counter() - begin
    timed = sum(result.status == "timed" for result in results)
    print("quick30", timed, seconds, flush=True)
    return {"variants": VARIANTS, "timed": timed, **seconds, "faults": [] if timed == VARIANTS else ["not all timed"]}


# ---------------------------------------------------------------------------------------------------------- alternative


@SECTIONS.section
def versus_inline() -> Report:
    """A softmax of 8192 x 8192 floats: from source to verdict here, and by a torch inline extension."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "softmax.py").write_text(MODEL.format(rows=ROWS, columns=COLUMNS))
        source, kernel = read_task(folder / "softmax.py"), softmax()[1]
        with open_task(source, "cuda") as judge:
            judge.evaluate(fresh(kernel, **SETTINGS))
            ours = [budget(judge, fresh(kernel, **SETTINGS)) for _ in range(3)]
            header = judge.header
        for row in ours:
            print("ours", row["status"], row["message"], f"{row['whole_seconds']:.2f}s", row["stages"], row["parts"])
        (folder / "task.h").write_text(header)
        defines = "".join(f"#define {each} {value}\n" for each, value in SETTINGS.items())
        (folder / "kernel.cu").write_text(defines + kernel.files["kernel.cu"])
        theirs = inline(folder)
    print("inline", theirs, flush=True)
    whole = statistics.median(row["whole_seconds"] for row in ours)
    ratio = theirs["process_seconds"] / whole
    faults = [] if all(row["status"] == "accepted" for row in ours) and theirs.get("right") else ["not both right"]
    faults += [f"{ratio:.1f} times as fast"] if ratio < RATIO_WANTED else []
    return {"ours": ours, "inline": theirs, "ratio": ratio, "faults": faults}


def inline(folder: Path) -> Report:
    """The other way, from the start of its process to its end."""
    script = Path(__file__).with_name("torch_inline.py")
    command = [sys.executable, str(script), str(folder / "kernel.cu"), str(folder / "task.h"), str(ROWS), str(COLUMNS)]
    begin = time.perf_counter()
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240,
                         env={**os.environ, "TORCH_CUDA_ARCH_LIST": "9.0"})  # fmt: skip
    took = time.perf_counter() - begin
    told: Report = json.loads(ran.stdout.splitlines()[-1]) if ran.returncode == 0 else {"error": ran.stderr[-2000:]}
    return {**told, "process_seconds": took}


# ---------------------------------------------------------------------------------------------------------------- sweep


@SECTIONS.section
def tune() -> Report:
    """One sweep of many configurations: how busy the device is meanwhile, and how many are evaluated in a minute."""
    source, kernel = softmax()

    async def run() -> Report:
        async with LocalExecutor() as executor:
            await executor.open(source, "cuda")
            with utilisation() as samples:
                begin = time.perf_counter()
                report = await sweep(executor, source, kernel, None, TRIALS, groups=CudaTarget().tunable_flags)
                seconds = time.perf_counter() - begin
        rejected: dict[str, int] = {}
        for trial in report.trials:
            if trial.reason is not None:
                rejected[trial.reason] = rejected.get(trial.reason, 0) + 1
        return {
            "trials": len(report.trials),
            "timed": sum(trial.seconds is not None for trial in report.trials),
            "rejected": rejected,
            "seconds": seconds,
            "evaluations_per_minute": 60 * len(report.trials) / seconds,
            "device_busy_share": statistics.fmean(samples) / 100 if samples else None,
            "samples": len(samples),
            "best": report.assignment.model_dump(mode="json") if report.assignment is not None else None,
            "ratio": report.ratio,
        }

    found = asyncio.run(run())
    print("tune", found, flush=True)
    return {**found, "faults": [] if found["trials"] == TRIALS and found["timed"] else ["the sweep is incomplete"]}


# --------------------------------------------------------------------------------------------------------------- spread


@SECTIONS.section
def spread() -> Report:
    """Whole evaluations of one kernel, again and again: how far their times lie apart."""
    source, kernel = softmax()
    seconds: dict[str, list[float]] = {}
    samples: dict[str, list[int]] = {}
    statuses: list[str] = []
    with open_task(source, "cuda") as judge:
        for _ in range(REPEATS):
            verdict = judge.evaluate(kernel)
            statuses.append(f"{verdict.status} {getattr(verdict, 'message', '')}".strip())
            for timing in timings(verdict):
                seconds.setdefault(timing.workload, []).append(timing.seconds)
                samples.setdefault(timing.workload, []).append(timing.samples)
    spread = {each: (max(times) - min(times)) / statistics.median(times) for each, times in seconds.items()}
    apart = {each: from_median(times) for each, times in seconds.items()}
    print("spread", {name: f"{share:.2%}" for name, share in spread.items()}, apart, set(statuses), flush=True)
    faults = [f"{name}: {share:.2%}" for name, share in apart.items() if share > APART_ALLOWED]
    faults += [] if set(statuses) == {"accepted"} else ["not always accepted"]
    return {"seconds": seconds, "samples": samples, "spread": spread, "from_median": apart, "statuses": statuses,
            "faults": faults}  # fmt: skip


def from_median(times: Sequence[float]) -> float:
    """How far the farthest lies from the middle one, as a fraction of that."""
    middle = statistics.median(times)
    return max(abs(each - middle) for each in times) / middle


# ----------------------------------------------------------------------------------------------------------- whole runs


@SECTIONS.section
def autotune() -> Report:
    """`builtin:autotune` on every example, a few at once: builds share the cores, timings wait for each other."""
    names = sorted(path.parent.name for path in ROOT.glob("examples/*/kernel.cu"))
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = dict(zip(names, pool.map(lambda name: optimized(name, Path(folder)), names), strict=True))
        seconds = time.perf_counter() - begin
        shutil.rmtree(folder, ignore_errors=True)
    faults = [name for name, row in found.items() if row["exit_code"] != 0 or not row["rows"]]
    return {
        "iterations": ITERATIONS,
        "wall_seconds": RUN_SECONDS,
        "seconds": seconds,
        "examples": found,
        "faults": faults,
    }


# ------------------------------------------------------------------------------------------------------------- profile


@SECTIONS.section
def profile() -> Report:
    """Profiles with counters: how long they take, and what of it is the profiler's own."""
    rows: list[Report] = []
    known = next(each for each in zoo_on_gpu.KNOWN if each.name == "strided_copy")
    subjects = [softmax(), softmax(), (zoo_on_gpu.task(), zoo_on_gpu.kernel(known))]
    for source, kernel in subjects:
        with open_task(source, "cuda") as judge, commands() as ran:
            begin = time.perf_counter()
            found = profile_kernel(judge, kernel)
            rows.append(
                {
                    "task": source.name,
                    "seconds": time.perf_counter() - begin,
                    "commands": ran,
                    "bottleneck": found.bottleneck,
                    "evidence": found.evidence,
                    "hot_lines": [line.model_dump(mode="json") for line in found.hot_lines[:3]],
                    "excess_sectors": next((m.value for m in found.metrics if m.name == "excess_sectors"), None),
                    "missing": found.missing,
                }
            )
        print("profile", {name: value for name, value in rows[-1].items() if name != "evidence"}, flush=True)
    unread = [row["task"] for row in rows if not all(line["text"] for line in row["hot_lines"])]
    return {"rows": rows, "faults": [f"{name}: a line without its text" for name in unread]}


def main() -> int:
    """Run the sections that are named, else all; each leaves its record as soon as it is done."""
    asked = asked_of(parser_of(__doc__, SECTIONS), SECTIONS).sections
    out, about, bad = out_folder(), machine(CudaTarget().toolchain()["compiler"]), []
    for name, found, seconds in each_run({n: SECTIONS[n] for n in asked}, lambda text: {"faults": [text]}):
        write(out / f"{name}.json", {**about, "seconds": seconds, name: found})
        print(f"-- {name}: {found['faults'] or 'as it should be'} ({seconds:.1f}s)", flush=True)
        bad += [name] if found["faults"] else []
        if set(found) == {"faults"} and len(bad) == 1 and name == asked[0]:
            break  # what fails so early would fail everywhere
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
