"""KernelBench files on a real GPU: each loads, is audited, has its baselines timed, and right and wrong kernels judged.

    python -P tests/h200/kernelbench_on_gpu.py CHECKOUT [--files NAME...] [--dry-run] [--merge FOLDER] [--table RECORD]
    python -P tests/h200/kernelbench_on_gpu.py CHECKOUT --sections policies tuned      # baselines alone, no kernels

CHECKOUT is a checkout of KernelBench; the files are taken as they stand there, and none of its code is kept here.
Runs where warpsmith, PyCUDA, PyTorch and a GPU are; writes `kernelbench.json` to $OUT (else ./out), and each section as
`kernelbench_SECTION.json`; they are kept under tests/golden/h200/judge/. Exit status 1 when a verdict is not the
expected one. With --dry-run no device is needed: every file is loaded and audited on the CPU at reduced sizes, and
every kernel is built.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import kernelbench_baselines  # noqa: E402
from kernelbench_files import FILES, File  # noqa: E402
from recording import Report, each_run, gpu, out_folder, require_gpu, today, write  # noqa: E402
from wrong_kernels import wrong_kernels  # noqa: E402

from tools.audit import audit  # noqa: E402
from tools.baseline import VARIANTS, VARIANTS_VARIABLE, torch_rows  # noqa: E402
from tools.contract import Signature, task_header  # noqa: E402
from tools.cuda_device import CudaDevice  # noqa: E402
from tools.device_lock import device_lock  # noqa: E402
from tools.errors import InfrastructureError, TaskError  # noqa: E402
from tools.judge import Judge, open_task  # noqa: E402
from tools.records import Accepted, Kernel, Rejected, Verdict  # noqa: E402
from tools.reference import load_reference  # noqa: E402
from tools.targets.cuda import CudaTarget  # noqa: E402
from tools.task import TaskSource, read_kernel, read_task  # noqa: E402

KERNELS = ROOT / "tests/kernels/kernelbench"
COMPILE_SECONDS = "30"
"""What one torch.compile may take here."""


def kernels_of(file: File, signature: Signature) -> dict[str, Kernel]:
    """A right one and zeros, where there is a right one; else zeros and the most that can be had without computing."""
    wrong = dict(wrong_kernels(signature))
    if file.kernel:
        return {"right": read_kernel(KERNELS / f"{file.kernel}.cu"), "zeros": wrong["zeros"]}
    last = list(wrong)[-1]
    return {"zeros": wrong["zeros"], last: wrong[last]}


def told(verdict: Verdict, seconds: float) -> Report:
    """What is kept of a verdict."""
    row: Report = {"status": verdict.status, "seconds": seconds}
    row["stages"] = {stage.stage: round(stage.seconds, 3) for stage in verdict.stages}
    if isinstance(verdict, Accepted):
        row["timings"] = [timing.model_dump(mode="json") for timing in verdict.timings]
        row["worst_error"] = verdict.worst_error
        row["speedup_over_eager"] = verdict.speedup_over_eager
        row["speedup_over_compile"] = verdict.speedup_over_compile
    elif isinstance(verdict, Rejected):
        row |= {"stage": verdict.stage, "reason": verdict.reason, "message": verdict.message}
    else:
        row["message"] = verdict.message
    return row


def expected(name: str, row: Report) -> bool:
    if name == "right":
        return bool(row["status"] == "accepted")
    return bool(row["status"] == "rejected" and row["stage"] == "correct")


def judged(judge: Judge, file: File) -> Report:
    rows: Report = {}
    kernels = kernels_of(file, judge.signatures[0])
    judge.compilers.begin(list(kernels.values()))
    for name, kernel in kernels.items():
        begin = time.perf_counter()
        rows[name] = told(judge.evaluate(kernel), time.perf_counter() - begin)
        rows[name]["as_expected"] = expected(name, rows[name])
    return rows


def on_device(file: File, checkout: Path) -> Report:
    """Open the task and judge the kernels."""
    source = read_task(checkout / file.path)
    row = described(file, source)
    os.environ[VARIANTS_VARIABLE] = ",".join(file.variants)
    begin = time.perf_counter()
    try:
        with open_task(source, "cuda") as judge:
            row["open_seconds"] = time.perf_counter() - begin
            row["facts"] = judge.facts.model_dump(mode="json", exclude={"header", "hardware"})
            row["reference_on_gpu"] = judge.reference.on_gpu
            row["verdicts"] = judged(judge, file)
            row["as_expected"] = not file.refused and all(v["as_expected"] for v in row["verdicts"].values())
    except TaskError as error:
        row |= {"open_seconds": time.perf_counter() - begin, "refused": {"fault": error.fault, "message": str(error)}}
        row["as_expected"] = bool(file.refused) and error.fault == "degenerate" and file.refused in str(error)
    row["seconds"] = time.perf_counter() - begin
    return row


def described(file: File, source: TaskSource) -> Report:
    text = source.files[source.entry]
    return {"file": file.path, "sha256": hashlib.sha256(text.encode()).hexdigest(), "overrides": dict(source.overrides)}


def dry_run(checkout: Path, files: list[File]) -> bool:
    """Load and audit at small sizes, and build every kernel."""
    target = CudaTarget()
    right = True
    for file in files:
        begin = time.perf_counter()
        source = read_task(checkout / file.path, file.small)
        try:
            reference = load_reference(source)
            notes = audit(reference, 1)
            outcome, fine = f"notes {notes}", not file.refused
        except TaskError as error:
            outcome, fine = f"refused: {error.message}", bool(file.refused) and file.refused in error.message
        signature = reference.signature(0)
        header = task_header(source.name, [signature])
        for name, kernel in kernels_of(file, signature).items():
            built = target.compile_kernel(kernel, header, "release", ())
            fine = fine and built.library is not None
            outcome += f", {name} {'built' if built.library else built.message}"
        right = right and fine
        print("ok " if fine else "BAD", file.path, outcome, f"{time.perf_counter() - begin:.1f}s", flush=True)
    return right


def commit_of(checkout: Path) -> str:
    """The checkout's commit: git's word, else a file COMMIT beside the levels."""
    asked = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    kept = checkout / "COMMIT"
    return kept.read_text().strip() if kept.is_file() else asked.stdout.strip() or "unknown"


def measure(checkout: Path, files: list[File], out: Path, parts: int) -> bool:
    """Peaks and all baselines first, in one process, then the files in as many processes as there are parts: builds and
    checks go side by side, timings take turns by the device's lock."""
    about = {**gpu(), "date": today()}
    begin = time.perf_counter()
    record: Report = {
        **about,
        "torch": importlib.import_module("torch").__version__,
        "commit": commit_of(checkout),
        **baselines(checkout, files),
    }
    record["baseline_seconds"] = time.perf_counter() - begin
    print(f"-- baselines {record['baseline_seconds']:.1f}s", flush=True)
    write(out / "kernelbench_head.json", record)
    running = []
    for part in range(min(parts, len(files))):
        own = [file.path for file in files[part::parts]]
        path = out / f"kernelbench_part{part}.json"
        running.append(
            subprocess.Popen([sys.executable, "-P", __file__, str(checkout), "--part", str(path), "--files", *own])
        )
    for process in running:
        process.wait()
    rows = merged(out, [file.path for file in files])["files"]
    return len(rows) == len(files) and all(row["as_expected"] for row in rows)


def merged(out: Path, order: list[str]) -> Report:
    """Put what the parts have written beside each other, also when not all of them came to their end."""
    record: Report = json.loads((out / "kernelbench_head.json").read_text())
    found = [row for path in sorted(out.glob("kernelbench_part*.json")) for row in json.loads(path.read_text())]
    record["files"] = sorted(found, key=lambda row: order.index(row["file"]))
    write(out / "kernelbench.json", record)
    return record


def baselines(checkout: Path, files: list[File]) -> Report:
    """Measured peaks, and how long each variant took to get ready; the times themselves are kept for the judges."""
    device = CudaDevice()
    hardware = device.hardware()
    print("peaks", {k: f"{v / 1e12:.1f}T" for k, v in hardware.peak_flops.items()}, flush=True)
    wanted = [(read_task(checkout / file.path), file.variants) for file in files if not file.refused]
    prepared: dict[str, dict[str, float]] = {}
    with device_lock(device.lock):
        try:
            rows = torch_rows(wanted, device.lock)
        except InfrastructureError as error:
            print("baselines:", error, flush=True)
            rows = {}
    for source, _ in wanted:
        mine = [row for row in rows.get(source.id, ()) if row.prepared]
        prepared[source.name] = {row.variant: round(row.prepared, 2) for row in mine}
        print("prepared", source.name, prepared[source.name], flush=True)
    device.close()
    return {"peaks": hardware.model_dump(mode="json", exclude={"compiler"}), "prepared_seconds": prepared}


def baseline_sections(checkout: Path, names: list[str], out: Path) -> bool:
    """Whether every task of the sections has a time; the device is held meanwhile."""
    device, fine = CudaDevice(), True
    about = {**gpu(), "date": today(), "torch": importlib.import_module("torch").__version__}
    sections = {name: functools.partial(kernelbench_baselines.SECTIONS[name], checkout) for name in names}
    with device_lock(device.lock):
        for name, found, seconds in each_run(sections, lambda text: {"failed": text}):
            write(out / f"kernelbench_{name}.json", {**about, "commit": commit_of(checkout), **found})
            print("\n".join(kernelbench_baselines.tables(found)), f"\n-- {name} {seconds:.1f}s", flush=True)
            fine = fine and bool(found.get(name)) and all("seconds" in row["eager"] for row in found[name].values())
    device.close()
    return fine


def judge_part(checkout: Path, files: list[File], path: Path) -> None:
    """Judge these files one after the other, and write what came of them."""
    rows = []
    each = {file.path: functools.partial(on_device, file, checkout) for file in files}
    for name, row, _ in each_run(each, lambda text: {"failed": text, "as_expected": False, "seconds": 0.0}):
        rows.append({"file": name, **row})
        report(rows[-1])
        path.write_text(json.dumps(rows))


def table(record: Report) -> list[str]:
    """A row of Markdown for each recorded file: sizes, baselines, our kernel, verdicts, seconds for all of it."""
    lines = [
        "| file | largest array | eager | compile | tuned | ours | verdicts | took |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    return lines + [_table_row(row) for row in record["files"]]


def _table_row(row: Report) -> str:
    took = f"{row['seconds']:.0f} s"
    if "refused" in row:
        return f"| `{row['file']}` | | | | | | refused: {row['refused']['message'].split('.')[0]} | {took} |"
    if "verdicts" not in row:
        return f"| `{row['file']}` | | | | | | failed | {took} |"
    workload = row["facts"]["workloads"][0]
    seconds = {each["name"]: each["seconds"] for each in workload["baselines"]}
    timed = [_microseconds(seconds.get(name)) for name in VARIANTS]
    ours = [timing["seconds"] for verdict in row["verdicts"].values() for timing in verdict.get("timings", ())]
    verdicts = ", ".join(f"{name} {verdict['status']}" for name, verdict in row["verdicts"].items())
    largest = max((*workload["inputs"], *workload["outputs"]), key=_elements).split(": ")[1]
    cells = [f"`{row['file']}`", largest, *timed, _microseconds(ours[0] if ours else None), verdicts, took]
    return f"| {' | '.join(cells)} |"


def _elements(described: str) -> int:
    """Of an array as `name: dtype[sides]`."""
    sides = described.rpartition("[")[2].rstrip("]").split(", ")
    return math.prod(int(side) for side in sides if side.isdigit())


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.4g} µs"


def report(row: Report) -> None:
    timed = {
        each["name"]: f"{each['seconds'] * 1e6:.1f}us"
        for workload in row.get("facts", {}).get("workloads", ())
        for each in workload["baselines"]
    }
    verdicts = {
        name: f"{v['status']} {v.get('reason', '')} {v['seconds']:.1f}s" for name, v in row.get("verdicts", {}).items()
    }
    ours = [f"{t['seconds'] * 1e6:.1f}us" for v in row.get("verdicts", {}).values() for t in v.get("timings", ())]
    told = row.get("refused") or row.get("facts", {}).get("notes")
    fine = "ok " if row["as_expected"] else "BAD"
    opened = f"open {row.get('open_seconds', 0):.1f}s"
    print(fine, row["file"], timed, ours, verdicts, told, opened, f"{row['seconds']:.1f}s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--files", nargs="*", default=[], help="only those whose path holds one of these")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--parts", type=int, default=3, help="processes that judge")
    parser.add_argument("--table", type=Path, help="only print the table of a record")
    parser.add_argument("--merge", type=Path, help="only merge what a run that was cut short left in this folder")
    parser.add_argument("--sections", nargs="*", default=[], choices=kernelbench_baselines.SECTIONS)
    parser.add_argument("--part", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    checkout = given.checkout / "KernelBench" if (given.checkout / "KernelBench").is_dir() else given.checkout
    files = [file for file in FILES if not given.files or any(part in file.path for part in given.files)]
    os.environ.setdefault("WARPSMITH_COMPILE_SECONDS", COMPILE_SECONDS)
    if given.table is not None:
        record = json.loads(given.table.read_text())
        print("\n".join(table(record) if "files" in record else kernelbench_baselines.tables(record)))
        return
    if given.merge is not None:
        merged(given.merge, [file.path for file in FILES])
        return
    if given.part is not None:
        judge_part(checkout, files, given.part)
        return
    if given.sections or not given.dry_run:
        require_gpu("pycuda", "torch")
    if given.sections:
        sys.exit(not baseline_sections(checkout, given.sections, out_folder()))
    if given.dry_run:
        sys.exit(not dry_run(checkout, files))
    sys.exit(not measure(checkout, files, out_folder(), given.parts))


if __name__ == "__main__":
    main()
