"""Torch kernels judged on a real GPU: three ways to write one, what must be refused, and what a fault leaves behind.

    python -P tests/h200/torch_on_gpu.py [softmax kernelbench start faults sanitizers] [--only NAME,NAME]

Needs warpsmith, PyCUDA, PyTorch, Triton, CuPy and a GPU; writes `torch.json`, and `torch_SECTION.json` of `faults` and
`sanitizers`, to $OUT (else ./out), which are kept under tests/golden/h200/judge/ and replayed by
tests/test_torch_golden.py. Exit status 1 when a verdict is not as expected. `faults` is to run alone on its device: one
of its kernels takes all memory that is free.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import torch_kernels_on_gpu as kernels  # noqa: E402
from aftermath import NOISE, device_free, device_free_again  # noqa: E402
from bystander import Bystander  # noqa: E402
from fixture_rows import placeless  # noqa: E402
from recording import Report, asked_of, each_run, gpu, out_folder, parser_of, today, write  # noqa: E402

from tools.judge import Judge, open_task  # noqa: E402
from tools.records import Kernel  # noqa: E402
from tools.task import read_task  # noqa: E402

KEPT_DETAILS = (
    "checked",
    "own_share_of_device_time",
    "could_not_check",
    "not_covered",
    "trace_seconds",
    "worker_seconds",
)
WANTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "triton": ("accepted", ()),
    "cupy": ("accepted", ()),
    "inline": ("accepted", ()),
    "framework": ("correct", ("framework_op",)),
    "below": ("correct", ("framework_op",)),
    "side_stream": ("correct", ("late_work", "not_written", "wrong_result")),
    "writes_input": ("correct", ("crashed", "input_modified")),
    "faulting": ("correct", ("crashed",)),
    "triton_again": ("accepted", ()),
    **{name: ("correct", ("crashed",)) for name in kernels.FAULTS},
    "endless": ("correct", ("timeout",)),
    "takes_all_memory": ("correct", ("out_of_memory",)),
    **{name: ("memory-safe", ("memory_error",)) for name in kernels.UNSAFE},
    **{name: ("accepted", ()) for name in kernels.SAFE},
    "relu": ("accepted", ()),
    "relu_framework": ("correct", ("framework_op",)),
}
"""A stage and the reasons that are right, by kernel."""


def kernel(text: str) -> Kernel:
    return Kernel(language="torch", files={"kernel.py": text})


def softmax(only: list[str]) -> Report:
    """A task in NumPy."""
    texts = {
        "triton": kernels.TRITON,
        "cupy": kernels.CUPY,
        "framework": kernels.FRAMEWORK,
        "below": kernels.BELOW,
        "side_stream": kernels.SIDE_STREAM,
        "writes_input": kernels.WRITES_INPUT,
        "inline": kernels.INLINE,
        "faulting": kernels.FAULTING,
        "triton_again": kernels.TRITON,
    }
    source = read_task(ROOT / "examples/softmax")
    found: Report = {}
    with open_task(source, "cuda") as judge:
        shapes = repr([signature.outputs[0].shape for signature in judge.signatures])
        begin = time.perf_counter()
        judge.device.torch.round_trip()  # with it the worker that all are compared with is there
        found["first_start"] = {"seconds": time.perf_counter() - begin}
        for name, text in texts.items():
            if not only or name in only:
                found[name] = judged(judge, name, kernel(text.replace("SHAPES", shapes)))
    return found


def kernelbench(only: list[str]) -> Report:
    """A task in the form of KernelBench, with parameters."""
    found: Report = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scaled_relu.py")
        path.write_text(kernels.RELU_TASK)
        with open_task(read_task(path), "cuda") as judge:
            for name, text in {"relu": kernels.RELU, "relu_framework": kernels.RELU_FRAMEWORK}.items():
                if not only or name in only:
                    found[name] = judged(judge, name, kernel(text))
    return found


def start(only: list[str]) -> Report:
    """Seconds until a worker is ready: the first with the server's start, the later ones by fork alone."""
    del only
    seconds = []
    with open_task(read_task(ROOT / "examples/softmax"), "cuda") as judge:
        build = judge.build_variant(kernel(kernels.TRITON), "release")
        for _ in range(6):
            begin = time.perf_counter()
            with judge.runner(build):
                seconds.append(time.perf_counter() - begin)
    return {"ready_seconds": seconds}


def faults(only: list[str]) -> Report:
    """What each fault leaves behind: free memory, the next verdict on a right kernel, and another judge's worker that
    is at work meanwhile, in a process of its own."""
    found: Report = {}
    task = ROOT / "examples/softmax"
    with contextlib.ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory()), "kernel.py")
        path.write_text(kernels.TRITON)
        beside = Bystander(task, path)
        stack.callback(beside.close)
        judge = stack.enter_context(open_task(read_task(task), "cuda"))
        judge.device.torch.round_trip()
        found["before"] = judged(judge, "triton", kernel(kernels.TRITON))
        for name, text in kernels.FAULTS.items():
            if not only or name in only:
                found[name] = faulted(judge, name, text, beside)
                write(out_folder() / "torch_faults_so_far.json", found)
    return found


def faulted(judge: Judge, name: str, text: str, beside: Bystander) -> Report:
    """One row; what goes wrong with it is told in it."""
    try:
        calls, free = beside.right_calls(), device_free(judge)
        row = judged(judge, name, kernel(text))
        row["free_bytes"] = {"before": free, "after": device_free_again(judge, free)}
        row["next"] = judge.evaluate(kernel(kernels.TRITON)).status
        row["right_calls_beside"] = beside.right_calls() - calls
    except Exception as error:  # noqa: BLE001 - the other rows are still worth their device time
        return {"failed": f"{type(error).__name__}: {error}", "as_expected": False}
    freed = row["free_bytes"]["after"] >= row["free_bytes"]["before"] - NOISE
    row["as_expected"] = row["as_expected"] and freed and row["next"] == "accepted" and row["right_calls_beside"] > 0
    print(name, "next:", row["next"], "beside:", row["right_calls_beside"], flush=True)
    return row


def sanitizers(only: list[str]) -> Report:
    """compute-sanitizer on torch kernels: what is found, what it takes, and what it says where it can't look."""
    texts = {"triton": kernels.TRITON, "cupy": kernels.CUPY, **kernels.UNSAFE, **kernels.SAFE}
    found: Report = {}
    with open_task(read_task(ROOT / "examples/softmax"), "cuda") as judge:
        for name, text in texts.items():
            if only and name not in only:
                continue
            try:
                found[name] = judged(judge, name, kernel(text))
            except Exception as error:  # noqa: BLE001 - the other rows are still worth their device time
                found[name] = {"failed": f"{type(error).__name__}: {error}", "as_expected": False}
            write(out_folder() / "torch_sanitizers_so_far.json", found)
    return found


def judged(judge: Judge, name: str, candidate: Kernel) -> Report:
    """One evaluation as plain data, with the device's free memory around it."""
    import pycuda.driver as cuda

    before, begin = cuda.mem_get_info()[0], time.perf_counter()
    verdict = judge.evaluate(candidate)
    seconds = time.perf_counter() - begin
    stages = getattr(verdict, "stages", ())
    wanted, reasons = WANTED[name]
    right = (
        verdict.status == "accepted"
        if wanted == "accepted"
        else verdict.status == "rejected" and verdict.stage == wanted and verdict.reason in reasons
    )
    row: Report = {
        "status": verdict.status,
        **{key: getattr(verdict, key) for key in ("stage", "reason", "message") if hasattr(verdict, key)},
        "as_expected": right,
        "seconds": seconds,
        "stages": {stage.stage: stage.seconds for stage in stages},
        "details": {
            stage.stage: {key: stage.details[key] for key in KEPT_DETAILS if key in stage.details} for stage in stages
        },
        "kernels": kernels_seen(stages),
        "times": {
            t.workload: [t.seconds, t.baseline_seconds, t.limit_seconds] for t in getattr(verdict, "timings", ())
        },
        "free_bytes": {"before": before, "after": cuda.mem_get_info()[0]},
    }
    row = json.loads(re.sub(r"/tmp/warpsmith-\w+", "TMP", placeless(json.dumps(row))))
    print(name, json.dumps(row)[:1500], flush=True)
    if not right:
        print("\n".join(stage.stdout[-1500:] for stage in stages if not stage.passed), flush=True)
    return row


def kernels_seen(stages: Any) -> list[str]:
    names: list[str] = []
    for stage in stages:
        for seen in stage.details.get("device_kernels") or []:
            names += list(seen.get("kernels") or []) if isinstance(seen, dict) else [str(seen)]
    return sorted({name[:120] for name in names})


SECTIONS: dict[str, Callable[[list[str]], Report]] = {
    "softmax": softmax,
    "kernelbench": kernelbench,
    "start": start,
    "faults": faults,
    "sanitizers": sanitizers,
}
APART = ("faults", "sanitizers")
"""Sections with a record of their own."""


def main() -> int:
    """Run the sections that are named, else all."""
    parser = parser_of(__doc__, SECTIONS)
    parser.add_argument("--only", default="", metavar="NAME,NAME", help="these kernels alone")
    asked = asked_of(parser, SECTIONS)
    only = [name for name in asked.only.split(",") if name]
    about: Report = {**gpu(), "date": today()}
    record, out, fine = dict(about), out_folder(), True
    wanted = {name: functools.partial(SECTIONS[name], only) for name in asked.sections}
    for name, found, seconds in each_run(wanted, lambda text: {"failed": text}):
        rows = [row for row in found.values() if isinstance(row, dict)]
        fine = fine and "failed" not in found and all(row.get("as_expected", True) for row in rows)
        print(f"-- {name} {seconds:.1f}s", flush=True)
        if name in APART:
            write(out / f"torch_{name}.json", {**about, name: found})
        else:
            record[name] = found
            write(out / "torch.json", record)
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main())
