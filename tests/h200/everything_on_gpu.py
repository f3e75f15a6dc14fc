"""What must be seen on a real GPU, one section each: profiles, experiments, machine code, clocks.

    python -P tests/h200/everything_on_gpu.py [--dry-run] [zoo experiment listing clocks]

Needs warpsmith, PyCUDA, the CUDA toolkit and a GPU; writes `<section>.json` to $OUT (else ./out), with chip, driver and
date, to be kept under tests/golden/h200/. `--dry-run` builds all that the sections need with nvcc, and runs nothing: it
works without a GPU. Exit status 1 when a section saw something that it should not.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import gpu_programs  # noqa: E402
import zoo_on_gpu  # noqa: E402
from recording import Report, asked_of, each_run, machine, out_folder, parser_of, write  # noqa: E402

from tools.contract import task_header  # noqa: E402
from tools.errors import WarpsmithError  # noqa: E402
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
from tools.task import TaskSource, read_task  # noqa: E402

FORMS: tuple[Form, ...] = ("sass", "ptx")
CLOCKS_ALLOWED, SHORTEST = 0.03, 50e-6
FURTHER = ("dram__bytes.sum", "smsp__cycles_active.avg", "no_such__metric.sum")


class Section:
    """What is run on a GPU, and what of it can be prepared without one. Both return what they saw, with `faults`."""

    def __init__(self, name: str, run: Callable[[], Report], prepare: Callable[[], Report]) -> None:
        self.name, self.run, self.prepare = name, run, prepare


# ----------------------------------------------------------------------------------------------------------------- zoo


def zoo() -> Report:
    """Every kernel of the zoo, profiled live; its class and cause must be what its comment says."""
    rows: Report = {}
    with open_task(zoo_on_gpu.task(), "cuda") as judge:
        for known in zoo_on_gpu.KNOWN:
            begin = time.perf_counter()
            metrics = FURTHER if known is zoo_on_gpu.KNOWN[0] else ()
            profile = profile_kernel(judge, zoo_on_gpu.kernel(known), None, metrics)
            counters = profile.counters
            found = counters.cause if counters is not None and counters.status == "counted" else None
            rows[known.name] = {
                "comment": known.comment,
                "wanted": [known.bottleneck, known.cause],
                "found": [profile.bottleneck, found],
                "seconds": time.perf_counter() - begin,
                "profile": profile.model_dump(mode="json"),
            }
            said = counters.message if counters is not None and counters.status == "uncounted" else ""
            print(f"{known.name:24} {profile.bottleneck:8} {found} {said}", flush=True)
    return {"kernels": rows, "faults": [name for name, row in rows.items() if row["wanted"] != row["found"]]}


def prepare_zoo() -> Report:
    header, target = header_of(zoo_on_gpu.task()), CudaTarget("sm_90a")
    built = {known.name: target.compile_kernel(zoo_on_gpu.kernel(known), header) for known in zoo_on_gpu.KNOWN}
    return {"faults": [f"{name}: {build.message}" for name, build in built.items() if build.library is None]}


# ---------------------------------------------------------------------------------------------------------- experiment


def experiment() -> Report:
    """Programs that answer, that fault and that misbehave; after each the judge must still judge rightly."""
    source = read_task(ROOT / "examples/softmax")
    rows: Report = {}
    with open_task(source, "cuda") as judge:
        import pycuda.driver as cuda

        for name, asked in gpu_programs.PROGRAMS.items():
            before, begin = cuda.mem_get_info()[0], time.perf_counter()
            found = run_experiment(judge, program_of(asked))
            took, after = time.perf_counter() - begin, cuda.mem_get_info()[0]
            verdict = judge.evaluate(source.start["cuda"])
            rows[name] = {
                "wanted": asked.status,
                "experiment": found.model_dump(mode="json"),
                "seconds": took,
                "free_bytes": {"before": before, "after": after},
                "then": verdict.status,
                "as_expected": found.status in asked.status
                and asked.says in found.stdout
                and after >= before - (1 << 20)
                and verdict.status == "accepted",
            }
            print(name, found.status, found.exit_code, repr(found.stdout[:300]), f"{took:.1f}s", flush=True)
    return {"programs": rows, "faults": [name for name, row in rows.items() if not row["as_expected"]]}


def prepare_experiment() -> Report:
    header = header_of(read_task(ROOT / "examples/softmax"))
    faults = []
    for name, asked in gpu_programs.PROGRAMS.items():
        path, diagnostics = build_program(program_of(asked), header)
        faults += [] if path else [f"{name}: {diagnostics[0].message}"]
    return {"faults": faults}


def program_of(asked: gpu_programs.Asked) -> Program:
    return Program(language="cuda", files={"main.cu": asked.text}, seconds=asked.seconds)


# ------------------------------------------------------------------------------------------------------------- listing


def listing() -> Report:
    """Machine code of every example's kernel by this machine's own tools, and what is counted in it."""
    rows: Report = {}
    faults = []
    for path in sorted((ROOT / "examples").glob("*/kernel.cu")):
        source, target = read_task(path.parent), CudaTarget()
        build = target.compile_kernel(source.start["cuda"], header_of(source))
        row: Report = {}
        for form in FORMS:
            try:
                text = target.listing(build, None, form)
            except WarpsmithError as error:
                faults.append(f"{source.name} {form}: {error}")
                continue
            loads = cut(text, ListingRequest(form=form, around="LDG|ld.global", context=0, lines=40))
            row[form] = {"lines": len(text.splitlines()), "loads": loads.matches, "first": loads.text[:400]}
            if form == "sass":
                row["counted"] = dict(sass.count(text))
        rows[source.name] = row
        print(source.name, {form: row.get(form, {}).get("lines") for form in FORMS}, row.get("counted"), flush=True)
    return {"examples": rows, "faults": faults}


# -------------------------------------------------------------------------------------------------------------- clocks


def clocks() -> Report:
    """Events against the host's clock, for kernels of known duration: in a program of our own, and in the judge."""
    source = read_task(ROOT / "examples/softmax")
    with open_task(source, "cuda") as judge:
        asked = Program(language="cuda", files={"main.cu": gpu_programs.CLOCKS}, seconds=20)
        found = run_experiment(judge, asked)
        rows = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
        readings = judge_readings(judge, source.start["cuda"])
    for row in rows:
        row["difference"] = row["host"] / row["event"] - 1
        print({name: f"{value:.6g}" for name, value in row.items()}, flush=True)
    faults = [
        f"{row['wanted']:g} s: {row['difference']:.1%}"
        for row in rows
        if row["wanted"] >= SHORTEST and abs(row["difference"]) > CLOCKS_ALLOWED
    ]
    return {"queued": rows, "judge": readings, "faults": faults or ([] if rows else [found.stderr or found.status])}


def judge_readings(judge: Judge, kernel: Kernel) -> Report:
    with judge.lock(), judge.runner(judge.build_variant(kernel, "release")) as runner:
        for _ in range(40):
            runner.call(judge.content.fresh(0))
        seen = runner.clocks(0)
    readings = [(reading.inner, reading.outer) for reading in seen.readings]
    return {"readings": readings, "round_trips": seen.round_trips, "disagreement": seen.disagreement()}


def prepare_clocks() -> Report:
    asked = Program(language="cuda", files={"main.cu": gpu_programs.CLOCKS}, seconds=20)
    path, diagnostics = build_program(asked, header_of(read_task(ROOT / "examples/softmax")))
    return {"faults": [] if path else [diagnostics[0].message]}


# ---------------------------------------------------------------------------------------------------------------- main


def header_of(source: TaskSource) -> str:
    reference = load_reference(source)
    return task_header(source.name, [reference.signature(index) for index in range(len(reference.workloads))])


SECTIONS = (
    Section("zoo", zoo, prepare_zoo),
    Section("experiment", experiment, prepare_experiment),
    Section("listing", listing, listing),
    Section("clocks", clocks, prepare_clocks),
)


def main(arguments: list[str]) -> int:
    known = {each.name: each for each in SECTIONS}
    parser = parser_of(__doc__, known)
    parser.add_argument("--dry-run", action="store_true", help="build what the sections need, run nothing")
    asked = asked_of(parser, known, arguments)
    out, here, failed = out_folder(), machine(CudaTarget().toolchain()["compiler"]), False
    wanted = {name: known[name].prepare if asked.dry_run else known[name].run for name in asked.sections}
    for name, found, seconds in each_run(wanted, lambda text: {"faults": [text]}):
        failed = failed or bool(found["faults"])
        print(f"-- {name}: {'; '.join(found['faults']) or 'as it should be'} ({seconds:.1f}s)", flush=True)
        if not asked.dry_run:
            write(out / f"{name}.json", {**here, "seconds": seconds, name: found})
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
