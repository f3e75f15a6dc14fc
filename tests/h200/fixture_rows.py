"""Rows of the manifests of kernels, judged on a GPU: what each must be, and what is kept of it."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import time
import tomllib
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recording import Report

from tools.cache import cache_dir
from tools.errors import WarpsmithError
from tools.judge import Judge
from tools.records import Kernel, Verdict
from tools.task import TaskSource, read_kernel, read_task

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests/kernels"


def native_rows() -> dict[str, Report]:
    return tomllib.loads((KERNELS / "cuda.toml").read_text())


def native_kernel(name: str) -> Kernel:
    return read_kernel(KERNELS / native_rows()[name].get("kernel", name))


def chosen(expected: dict[str, Report]) -> dict[str, Report]:
    """The rows that ONLY names, by patterns with commas between; all without it."""
    patterns = os.environ.get("ONLY", "*").split(",")
    return {n: row for n, row in expected.items() if any(fnmatch.fnmatch(n, p) for p in patterns)}


def setting(row: Report) -> tuple[str, str, tuple[str, ...]]:
    """Task, policy and libraries: what rows of one judge share."""
    return row.get("task", ""), row.get("policy", "strict"), tuple(row.get("libraries", ()))


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


def judged_row(judge: Judge, name: str, kernel: Kernel, expected: Report) -> Report:
    """One row, or why there is none."""
    begin = time.perf_counter()
    try:
        row = judged(judge, kernel)
    except Exception as error:  # noqa: BLE001 - as above
        return failed_row(error, begin)
    row["as_expected"] = as_expected(row["verdict"], expected)
    report(name, row)
    return {**row, "verdict": shortened(name, row["verdict"])}


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
    verdict = row.get("verdict", {"status": row.get("failed")})
    told = {key: verdict.get(key) for key in ("stage", "reason", "message") if verdict.get(key)}
    times = {t["workload"]: f"{t['seconds'] * 1e6:.1f}us" for t in verdict.get("timings", [])}
    print(name, verdict["status"], row.get("as_expected", ""), told, times, f"{row['seconds']:.1f}s", flush=True)


def failed_row(error: Exception, begin: float) -> Report:
    """A row without a verdict."""
    traceback.print_exc()
    text = placeless(f"{type(error).__name__}: {error}")[:500]
    return {"failed": text, "as_expected": False, "seconds": time.perf_counter() - begin}
