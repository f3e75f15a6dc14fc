"""A short run of `builtin:autotune` through the command line, and what it came to by its own records."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from recording import Report

from app.summary import summarize
from memory.runs import list_runs

ROOT = Path(__file__).resolve().parents[2]
ITERATIONS, RUN_SECONDS = 3, 15
PATIENCE = 120
"""Seconds for opening a task, judging its start and measuring last, beside the time of the search."""


def optimized(name: str, folder: Path) -> Report:
    """A short run through the command line, and what it came to by its own records."""
    command = [
        *(sys.executable, "-P", "-m", "app.start", "optimize", f"examples/{name}", "--target", "cuda"),
        *("--iterations", str(ITERATIONS), "--wall-time", f"{RUN_SECONDS}s", "--runs", str(folder / name)),
    ]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    begin = time.perf_counter()
    try:
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
                             timeout=RUN_SECONDS + PATIENCE, stdin=subprocess.DEVNULL)  # fmt: skip
    except subprocess.TimeoutExpired as late:
        said = (late.stderr or b"")[-1000:].decode(errors="replace")
        return {"exit_code": None, "seconds": time.perf_counter() - begin, "rows": [], "stderr": said}
    took = time.perf_counter() - begin
    rows = [
        {
            "workload": row.workload,
            "start_seconds": row.start_seconds,
            "best_seconds": row.best_seconds,
            "gain": row.gain,
            "share_of_limit": row.share_of_limit,
        }
        for run in list_runs(folder / name)
        for row in summarize(run).rows
    ]
    print("autotune", name, ran.returncode, f"{took:.1f}s", rows, ran.stderr[-300:], flush=True)
    return {"exit_code": ran.returncode, "seconds": took, "rows": rows, "stderr": ran.stderr[-1000:]}
