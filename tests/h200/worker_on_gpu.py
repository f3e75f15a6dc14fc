"""A GPU behind `warpsmith worker`: through `--executor command:`, and by a file of jobs.

    python -P tests/h200/worker_on_gpu.py [command batch] [--target cpu]

Runs where warpsmith, PyCUDA and a GPU are (with `--target cpu` anywhere); writes `worker.json` to $OUT (else ./out),
with chip, driver and date, to be kept under tests/golden/h200/live/. Exit status 1 when something was not as it should
be.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from exports_on_gpu import warpsmith  # noqa: E402
from recording import Report, each_run, machine, out_folder, parser_of, require_gpu, write  # noqa: E402

from tools.protocol import VERSION  # noqa: E402
from tools.records import Kernel  # noqa: E402
from tools.targets.cuda import CudaTarget  # noqa: E402
from tools.task import read_task  # noqa: E402

EXAMPLE = "examples/softmax"
STARTS = {"cuda": "kernel.cu", "cpu": "kernel.cpp"}
BROKEN = {"cuda": ("cuda", "kernel.cu"), "cpu": ("cpp", "kernel.cpp")}
"""Language and file of a kernel that does not compile."""


def command(target: str) -> Report:
    """`check` and `profile` through a worker of another process, as one behind ssh is."""
    executor = f"command:{sys.executable} -P -m app.start worker"
    found: Report = {}
    for verb in ("check", "profile"):
        begin = time.perf_counter()
        ran = warpsmith(verb, EXAMPLE, f"{EXAMPLE}/{STARTS[target]}", "--executor", executor, "--json")
        seconds = time.perf_counter() - begin
        told: Report = json.loads(ran.stdout) if ran.stdout else {}
        said = {name: told.get(name) for name in ("status", "bottleneck", "evidence") if name in told}
        found[verb] = {"exit_code": ran.returncode, "seconds": seconds, **said, "stderr": ran.stderr[-600:]}
        print(verb, ran.returncode, f"{seconds:.1f}s", said, flush=True)
    return found


def jobs(target: str) -> list[Report]:
    """One of each kind, and a kernel that does not compile; several are in flight at once."""
    source = read_task(ROOT / EXAMPLE)
    start = source.start["cuda" if target == "cuda" else "cpp"]
    language, file = BROKEN[target]
    broken = Kernel.model_validate({"language": language, "files": {file: "int x = ;"}})
    kernel, task = start.model_dump(mode="json"), source.model_dump(mode="json")
    wanted: list[tuple[str, Report]] = [
        ("open", {}),
        ("build", {"kernel": kernel}),
        ("build", {"kernel": broken.model_dump(mode="json")}),
        ("evaluate", {"kernel": kernel}),
        ("quick", {"kernels": [kernel, kernel]}),
    ]
    return [
        {"v": VERSION, "id": f"{number} {op}", "op": op, "task": task, "target": target, **more}
        for number, (op, more) in enumerate(wanted)
    ]


def batch(target: str) -> Report:
    """A file of jobs, each answered by one line."""
    begin = time.perf_counter()
    ran = warpsmith("worker", lines="".join(json.dumps(job) + "\n" for job in jobs(target)))
    seconds = time.perf_counter() - begin
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    found = {"exit_code": ran.returncode, "seconds": seconds, "answers": {each["id"]: told(each) for each in answers}}
    print("batch", ran.returncode, f"{seconds:.1f}s", found["answers"], flush=True)
    return found


def told(answer: Report) -> Any:
    """What an answer comes to: a build, a status, times, or an error."""
    if not answer["ok"]:
        return answer["error"]
    result = answer["result"]
    if isinstance(result, list):
        return [each["status"] for each in result]
    return {name: result[name] for name in ("status", "built", "task") if name in result}


SECTIONS: dict[str, Callable[[str], Report]] = {"command": command, "batch": batch}


def faults_of(found: Report) -> list[str]:
    """What is not as it should be."""
    faults = [f"{name}: {report['failed']}" for name, report in found.items() if "failed" in report]
    whole = {name: report for name, report in found.items() if "failed" not in report}
    faults += [f"{verb} ended with {row['exit_code']}" for verb, row in whole.get("command", {}).items()
               if row["exit_code"]]  # fmt: skip
    if "batch" in whole:
        answers = found["batch"]["answers"]
        faults += [f"worker ended with {found['batch']['exit_code']}"] if found["batch"]["exit_code"] else []
        wanted = {"1 build": {"built": True}, "2 build": {"built": False}, "3 evaluate": {"status": "accepted"}}
        faults += [f"{name}: {answers.get(name)}" for name, right in wanted.items() if answers.get(name) != right]
    return faults


def main(arguments: Sequence[str]) -> int:
    parser = parser_of(__doc__, SECTIONS)
    parser.add_argument("--target", choices=sorted(STARTS), default="cuda")
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.sections if name not in SECTIONS]:
        parser.error(f"there is no section {unknown[0]}")
    if asked.target == "cuda":
        require_gpu("pycuda")
    here = machine(CudaTarget().toolchain()["compiler"]) if asked.target == "cuda" else {}
    found: Report = {}
    sections = {name: lambda name=name: SECTIONS[name](asked.target) for name in asked.sections or SECTIONS}
    for name, report, _ in each_run(sections, lambda text: {"failed": text}):
        found[name] = report
        write(out_folder() / "worker.json", {**here, **found, "faults": faults_of(found)})
    return int(bool(faults_of(found)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
