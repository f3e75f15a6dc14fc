"""What must be seen on a real GPU, one section each: profiles, experiments, machine code, clocks.

    python -P tests/h200/everything_on_gpu.py [--dry-run] [zoo no_counters deadlock experiment listing clocks]

Needs warpsmith, PyCUDA, the CUDA toolkit and a GPU; writes `<section>.json` to $OUT (else ./out) after every row, with
chip, driver and date, as they are kept under tests/golden/h200/live/. `--dry-run` builds all that the sections need
with nvcc, and runs nothing: it works without a GPU. Exit status 1 when a section saw something that it should not.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import gpu_programs  # noqa: E402
import uncounted  # noqa: E402
import zoo_on_gpu  # noqa: E402
from recording import Report, Seen, asked_of, each_run, machine, out_folder, parser_of, write  # noqa: E402

from tools.canary import SECONDS  # noqa: E402
from tools.contract import task_header  # noqa: E402
from tools.cuda_canary import CudaYardstick, wrong_reading  # noqa: E402
from tools.experiment import build_program, run_experiment  # noqa: E402
from tools.judge import Judge, open_task  # noqa: E402
from tools.listing import cut  # noqa: E402
from tools.machine_code import Form, ListingRequest  # noqa: E402
from tools.profilers import sass  # noqa: E402
from tools.profilers.cuda import profile_kernel  # noqa: E402
from tools.program import Program  # noqa: E402
from tools.records import Kernel  # noqa: E402
from tools.reference import load_reference  # noqa: E402
from tools.targets.cuda import CudaTarget  # noqa: E402
from tools.targets.cuda_toolkit import find_toolkit  # noqa: E402
from tools.task import TaskSource, read_task  # noqa: E402
from tools.timings import clock_details  # noqa: E402

FORMS: tuple[Form, ...] = ("sass", "ptx")
CLOCKS_ALLOWED, SHORTEST = 0.03, 50e-6
FURTHER = ("dram__bytes.sum", "smsp__cycles_active.avg", "no_such__metric.sum")
KEPT = 2000
"""Characters of what a program printed."""
CANARIES = (("canary", SECONDS, False), ("short_canary", 0.95 * SECONDS, True), ("long_canary", 1.5 * SECONDS, True))
"""Names, seconds that the kernel takes, and whether its readings must be refused."""
LINES = 3
"""Lines that are kept of a listing."""


class Section(NamedTuple):
    """What is run on a GPU, and what of it can be prepared without one: that returns what is wrong."""

    name: str
    run: Callable[[Seen], None]
    prepare: Callable[[], list[str]]


# ----------------------------------------------------------------------------------------------------------------- zoo


def zoo(seen: Seen) -> None:
    """Every kernel of the zoo, profiled live; its class and cause must be what its comment says."""
    with open_task(zoo_on_gpu.task(), "cuda") as judge:
        for known in zoo_on_gpu.KNOWN:
            with seen.row(known.name) as row:
                metrics = FURTHER if known is zoo_on_gpu.KNOWN[0] else ()
                begin = time.perf_counter()
                profile = profile_kernel(judge, zoo_on_gpu.kernel(known), None, metrics)
                row.update(
                    comment=known.comment, seconds=round(time.perf_counter() - begin, 1), **uncounted.told(profile)
                )
                seen.require(known.name, (known.bottleneck, known.cause) == (row["bottleneck"], row.get("cause")))
                print(f"{known.name:24} {row['bottleneck']:8} {row.get('cause')} {row.get('message', '')}", flush=True)


def prepare_zoo() -> list[str]:
    header, target = header_of(zoo_on_gpu.task()), CudaTarget("sm_90a")
    built = {known.name: target.compile_kernel(zoo_on_gpu.kernel(known), header) for known in zoo_on_gpu.KNOWN}
    return [f"{name}: {build.message}" for name, build in built.items() if build.library is None]


# --------------------------------------------------------------------------------------------------------- no counters


def no_counters(seen: Seen) -> None:
    """A profile where there is no ncu, and where ncu may not read counters: what is known without them, and why."""
    source = read_task(ROOT / "examples/softmax")
    with open_task(source, "cuda") as judge:
        for reason, out_of_reach in uncounted.REASONS.items():
            with seen.row(reason) as row:
                begin = time.perf_counter()
                with out_of_reach():
                    profile = profile_kernel(judge, source.start["cuda"])
                row.update(task=source.name, seconds=round(time.perf_counter() - begin, 1), **uncounted.told(profile))
                for lacking in uncounted.lacks(profile, reason):
                    seen.require(f"{reason}: it lacks {lacking}", right=False)
                print(reason, row.get("message"), *row["evidence"], sep="\n    ", flush=True)


def prepare_no_counters() -> list[str]:
    source, target = read_task(ROOT / "examples/softmax"), CudaTarget("sm_90a")
    build = target.compile_kernel(source.start["cuda"], header_of(source))
    return [] if build.library is not None else [build.message]


def deadlock(seen: Seen) -> None:
    """The real ncu on a kernel that it can't run alone: it is ended, and the profile is one without counters."""
    source = read_task(ROOT / "examples/softmax")
    with open_task(source, "cuda") as judge, seen.row("timeout") as row:
        begin = time.perf_counter()
        with uncounted.hurried():
            profile = profile_kernel(judge, uncounted.STUCK)
        row.update(seconds=round(time.perf_counter() - begin, 1), **uncounted.told(profile))
        for lacking in uncounted.lacks(profile, "timeout"):
            seen.require(f"it lacks {lacking}", right=False)
        row["then"] = judge.evaluate(source.start["cuda"]).status
        seen.require(f"then: {row['then']}", row["then"] == "accepted")
        print("deadlock", row.get("message"), f"{row['seconds']}s", row["then"], flush=True)


def prepare_deadlock() -> list[str]:
    build = CudaTarget("sm_90a").compile_kernel(uncounted.STUCK, header_of(read_task(ROOT / "examples/softmax")))
    return [] if build.library is not None else [build.message]


# ---------------------------------------------------------------------------------------------------------- experiment


def experiment(seen: Seen) -> None:
    """Programs that answer, that fault and that misbehave; after each the judge must still judge rightly."""
    source = read_task(ROOT / "examples/softmax")
    with open_task(source, "cuda") as judge:
        import pycuda.driver as cuda

        for name, asked in gpu_programs.PROGRAMS.items():
            with seen.row(name) as row:
                before, begin = cuda.mem_get_info()[0], time.perf_counter()
                found = run_experiment(judge, program_of(asked))
                took, after = time.perf_counter() - begin, cuda.mem_get_info()[0]
                row |= {
                    "wanted": asked.status,
                    "status": found.status,
                    "exit_code": found.exit_code,
                    "stdout": found.stdout[-KEPT:],
                    "seconds": took,
                    "free_bytes": {"before": before, "after": after},
                }
                row["then"] = judge.evaluate(source.start["cuda"]).status
                ended = found.status in asked.status and asked.says in found.stdout
                seen.require(name, ended and after >= before - (1 << 20) and row["then"] == "accepted")
                print(name, found.status, found.exit_code, repr(found.stdout[:300]), f"{took:.1f}s", flush=True)


def prepare_experiment() -> list[str]:
    header = header_of(read_task(ROOT / "examples/softmax"))
    faults = []
    for name, asked in gpu_programs.PROGRAMS.items():
        path, diagnostics = build_program(program_of(asked), header)
        faults += [] if path else [f"{name}: {diagnostics[0].message}"]
    return faults


def program_of(asked: gpu_programs.Asked) -> Program:
    return Program(language="cuda", files={"main.cu": asked.text}, seconds=asked.seconds)


# ------------------------------------------------------------------------------------------------------------- listing


def listing(seen: Seen, forms: tuple[Form, ...] = FORMS) -> None:
    """Machine code of every example's kernel by this machine's own tools, and what is counted in it."""
    for path in sorted((ROOT / "examples").glob("*/kernel.cu")):
        source, target = read_task(path.parent), CudaTarget()
        with seen.row(source.name) as row:
            build = target.compile_kernel(source.start["cuda"], header_of(source))
            for form in forms:
                text = target.listing(build, None, form)
                loads = cut(text, ListingRequest(form=form, around="LDG|ld.global", context=0, lines=40))
                first = [line for line in loads.text.splitlines() if "LDG" in line or "ld.global" in line][:LINES]
                row[form] = {"lines": len(text.splitlines()), "loads": loads.matches, "first": first}
                if form == "sass":
                    row["counted"] = dict(sass.count(text))
            print(source.name, {form: row[form]["lines"] for form in forms}, row.get("counted", ""), flush=True)


def prepare_listing() -> list[str]:
    seen, forms = Seen(lambda _: None), FORMS
    if find_toolkit().tool("cuobjdump") is None:
        print("left out: SASS, since there is no cuobjdump here", flush=True)
        forms = ("ptx",)
    listing(seen, forms)
    return seen.faults


# -------------------------------------------------------------------------------------------------------------- clocks


def clocks(seen: Seen) -> None:
    """Events against the host's clock, for kernels of known duration: in a program of our own, and in the judge."""
    source = read_task(ROOT / "examples/softmax")
    with open_task(source, "cuda") as judge:
        with seen.row("judge") as row:
            row.update(judge_readings(judge, source.start["cuda"]))
        for name, seconds, refused in CANARIES:
            with seen.row(name) as row, judge.lock():
                row.update(canary_readings(judge, seconds))
                seen.require(f"{name}: {row['refused']}", (row["refused"] is not None) == refused)
        asked = Program(language="cuda", files={"main.cu": gpu_programs.CLOCKS}, seconds=20)
        found = run_experiment(judge, asked)
    queued = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    for each in queued:
        each["difference"] = each["host"] / each["event"] - 1
        print({name: f"{value:.6g}" for name, value in each.items()}, flush=True)
        right = each["wanted"] < SHORTEST or abs(each["difference"]) <= CLOCKS_ALLOWED
        seen.require(f"{each['wanted']:g} s: {each['difference']:.1%}", right)
    seen.require(found.stderr or found.status, bool(queued))
    seen.rows["queued"] = queued


def canary_readings(judge: Judge, seconds: float) -> Report:
    """What the judge makes of its own kernel where that takes so long, and not the 3 ms that it should."""
    yardstick = judge._yardstick
    assert isinstance(yardstick, CudaYardstick)
    found, turns = yardstick.readings(seconds)
    readings = [(reading.inner, reading.outer) for reading in found.readings]
    refused = wrong_reading(found)
    print("canary", seconds, turns, statistics.median(found.seconds), refused, flush=True)
    return {
        "wanted": seconds,
        "turns": turns,
        "readings": readings,
        "round_trips": found.round_trips,
        "refused": refused,
    }


def judge_readings(judge: Judge, kernel: Kernel) -> Report:
    with judge.lock(), judge.runner(judge.build_variant(kernel, "release")) as runner:
        for _ in range(40):
            runner.call(judge.content.fresh(0))
        seen = runner.clocks(0)
    return {
        "readings": [(reading.inner, reading.outer) for reading in seen.readings],
        "round_trips": seen.round_trips,
        "disagreement": seen.disagreement(),
        **clock_details(seen, None, recycled=False),
    }


def prepare_clocks() -> list[str]:
    asked = Program(language="cuda", files={"main.cu": gpu_programs.CLOCKS}, seconds=20)
    path, diagnostics = build_program(asked, header_of(read_task(ROOT / "examples/softmax")))
    return [] if path else [diagnostics[0].message]


# ---------------------------------------------------------------------------------------------------------------- main


def header_of(source: TaskSource) -> str:
    reference = load_reference(source)
    return task_header(source.name, [reference.signature(index) for index in range(len(reference.workloads))])


SECTIONS = (
    Section("zoo", zoo, prepare_zoo),
    Section("no_counters", no_counters, prepare_no_counters),
    Section("deadlock", deadlock, prepare_deadlock),
    Section("experiment", experiment, prepare_experiment),
    Section("listing", listing, prepare_listing),
    Section("clocks", clocks, prepare_clocks),
)


def run(section: Section, path: Path, here: Report) -> Report:
    """All rows of a section; what there is of it stands in the file after each."""
    begin = time.perf_counter()

    def keep(seen: Seen) -> None:
        seconds = round(time.perf_counter() - begin, 1)
        write(path, {**here, "seconds": seconds, section.name: seen.rows, "faults": seen.faults})

    seen = Seen(keep)
    try:
        section.run(seen)
    except Exception as error:
        seen.faults.append(f"{type(error).__name__}: {error}")
        raise
    finally:
        keep(seen)
    return {"faults": seen.faults}


def main(arguments: list[str]) -> int:
    known = {each.name: each for each in SECTIONS}
    parser = parser_of(__doc__, known)
    parser.add_argument("--dry-run", action="store_true", help="build what the sections need, run nothing")
    asked = asked_of(parser, known, arguments)
    out, here, failed = out_folder(), machine(CudaTarget().toolchain()["compiler"]), False
    wanted: dict[str, Callable[[], Report]] = {
        name: partial(prepared, known[name]) if asked.dry_run else partial(run, known[name], out / f"{name}.json", here)
        for name in asked.sections
    }
    for name, found, seconds in each_run(wanted, lambda text: {"faults": [text]}):
        failed = failed or bool(found["faults"])
        print(f"-- {name}: {'; '.join(found['faults']) or 'as it should be'} ({seconds:.1f}s)", flush=True)
    return int(failed)


def prepared(section: Section) -> Report:
    return {"faults": section.prepare()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
