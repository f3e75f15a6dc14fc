"""Baselines of KernelBench files alone, without a kernel: one product under every numerics policy, and with
max-autotune those that are judged without it.

Run by kernelbench_on_gpu.py, `--sections policies tuned`; both end after a set time whatever compilers
do, and keep what there is until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from kernelbench_files import FILES, File
from recording import Report

from tools.baseline import VARIANTS, facts_of, run_jobs
from tools.records import Policy
from tools.task import TaskSource, read_task
from tools.torch_baseline import Job, Row

PRODUCT = "level1/1_Square_matrix_multiplication_.py"
POLICIES: tuple[Policy, ...] = get_args(Policy)
PATIENCE = {"policies": 45.0, "tuned": 30.0}
"""Seconds for one variant to compile."""
MOST = {"policies": 120.0, "tuned": 240.0}
"""For all of them; seen in a judged run: 4 to 6 s for each compiled product."""
TRIES = 2
"""A compiler that takes the process down takes the files behind its own with it: those are tried once more."""
Place = Literal["cuda", "cpu"]


def policies(
    checkout: Path, device: Place = "cuda", sizes: Mapping[str, Any] | None = None, variants: Sequence[str] = VARIANTS
) -> Report:
    """The baselines of one product of matrices by policy."""
    source = read_task(checkout / PRODUCT, sizes)
    by_policy: dict[str, TaskSource] = {policy: source.model_copy(update={"policy": policy}) for policy in POLICIES}
    found = timed("policies", by_policy, device, variants)
    return {"file": PRODUCT, "overrides": dict(source.overrides), **found}


def tuned(
    checkout: Path,
    device: Place = "cuda",
    files: Sequence[File] | None = None,
    variants: Sequence[str] = VARIANTS,
) -> Report:
    """All baselines of the files that are judged without max-autotune."""
    chosen = brief_files() if files is None else files
    return timed("tuned", {file.path: read_task(checkout / file.path) for file in chosen}, device, variants)


def brief_files() -> list[File]:
    return [file for file in FILES if file.variants != VARIANTS]


def timed(section: str, sources: Mapping[str, TaskSource], device: Place, variants: Sequence[str]) -> Report:
    """What became of every variant of every task, by the tasks' names here."""
    begin = time.perf_counter()
    rows: dict[str, list[Row]] = {}
    for _ in range(TRIES):
        left = MOST[section] - (time.perf_counter() - begin)
        open_ones = {name: source for name, source in sources.items() if not _timed(rows.get(name, []))}
        if left <= 0 or not open_ones:
            break
        jobs = [
            Job(source=source, device=device, variants=tuple(variants), patience=PATIENCE[section])
            for source in open_ones.values()
        ]
        found = run_jobs(jobs, left)
        rows |= {name: found[source.id] for name, source in open_ones.items()}
    return {section: {name: told(each) for name, each in rows.items()}, "seconds": time.perf_counter() - begin}


def _timed(rows: Sequence[Row]) -> bool:
    return any(row.status == "timed" for row in rows)


def told(rows: Sequence[Row]) -> Report:
    """A time with its interval, or why there is none, by variant; of the task's first workload."""
    times: Report = {each.name: each.model_dump(mode="json") for each in facts_of(rows, 0)}
    for row in rows:
        if row.status == "failed":
            times.setdefault(row.variant, {"failed": row.why})
        elif row.prepared:
            times[row.variant]["prepared_seconds"] = round(row.prepared, 2)
    return times


def tables(record: Report) -> list[str]:
    """The recorded sections as Markdown, a row for each policy or file."""
    lines = []
    for section, head in (("policies", "policy"), ("tuned", "file")):
        rows = record.get(section, {})
        if rows:
            lines += [f"| {head} | eager | compile | tuned |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{name}` | {' | '.join(_cell(row.get(each)) for each in VARIANTS)} |" for name, row in rows.items()
        ]
    return lines


def _cell(told: Report | None) -> str:
    if told is None:
        return ""
    return f"{told['seconds'] * 1e6:.4g} µs" if "seconds" in told else told["failed"].split(":")[0]


SECTIONS: dict[str, Callable[[Path], Report]] = {"policies": policies, "tuned": tuned}
