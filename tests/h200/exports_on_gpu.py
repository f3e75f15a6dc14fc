"""Exports of a CUDA kernel on a real GPU: written in every form, judged again, the operator installed and tried.

    python -P tests/h200/exports_on_gpu.py

Runs where warpsmith, PyCUDA, torch with ninja, the CUDA toolkit and a GPU are; writes `exports.json` to $OUT (else
./out), with chip, driver and date, to be kept under tests/golden/h200/. Exit status 1 when a form was not accepted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from recording import Report, machine, out_folder, require_gpu, write  # noqa: E402

from agents.steer_events import ExportForm  # noqa: E402
from tools.targets.cuda import CudaTarget  # noqa: E402

SECONDS = 280
"""That a form, or the run before, may take."""


def warpsmith(*arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    """The command line, with `lines` on its standard input."""
    command = [sys.executable, "-P", "-m", "app.start", *arguments]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
                          timeout=SECONDS, input=lines)  # fmt: skip


def exported(form: str, root: Path) -> Report:
    begin = time.perf_counter()
    done = warpsmith("export", "latest", "--runs", str(root), "--as", form, "--out", str(root / "out" / form), "--json")
    took = time.perf_counter() - begin
    print(form, done.returncode, f"{took:.1f}s", done.stderr[-600:], flush=True)
    told: Report = json.loads(done.stdout) if done.stdout else {}
    kept = {name: told.get(name) for name in ("files", "selftest", "unchecked")}
    verdict: Report = told.get("verdict") or {}
    said = {name: verdict.get(name) for name in ("status", "message", "timings")}
    return {"exit_code": done.returncode, "seconds": took, **kept, "verdict": said}


def main() -> int:
    """A run of one iteration, and its best kernel in every form, all at once; 1 when the run or a form failed."""
    require_gpu("pycuda", "torch")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        run = ("optimize", "examples/softmax", "--target", "cuda", "--iterations", "1", "--wall-time", "20s")
        ran = warpsmith(*run, "--runs", str(root))
        print("run", ran.returncode, ran.stderr[-600:], flush=True)
        if ran.returncode:
            print("The run failed, so there is nothing to export.", file=sys.stderr)
            return 1
        (root / "out").mkdir()
        with ThreadPoolExecutor() as pool:
            rows = {form: pool.submit(exported, form, root) for form in get_args(ExportForm)}
            found = {form: row.result() for form, row in rows.items()}
    about = machine(CudaTarget().toolchain()["compiler"])
    write(out_folder() / "exports.json", {**about, "run_exit_code": ran.returncode, "exports": found})
    return int(any(row["exit_code"] for row in found.values()))


if __name__ == "__main__":
    sys.exit(main())
