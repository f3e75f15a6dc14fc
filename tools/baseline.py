"""The reference's own time on each workload, taken when a task is opened.

In this process by the host's clock; where PyTorch computes on the GPU, in a process of its own by the device's
(`tools.torch_baseline`), as it is and compiled. That is paid for once and then kept: compiling can take minutes.
"""

from __future__ import annotations

import functools
import importlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tools import torch_baseline
from tools.cache import stored
from tools.content import ContentSource
from tools.contestants import BaselineRunner
from tools.environment import without_secrets
from tools.errors import InfrastructureError
from tools.facts import BaselineFacts
from tools.process import run_command
from tools.records import Interval
from tools.reference import Reference
from tools.significance import median_interval
from tools.task import TaskSource
from tools.torch_baseline import COMPILED, EAGER, Job, Jobs, Row

BASELINE_SECONDS = 0.4
"""Budget of one workload."""
BASELINE_ROUNDS = (5, 30)
"""Least and most calls. The least are run unless they take ten times the budget."""
START_SECONDS = 60.0
"""Until PyTorch and its compiler are imported."""
PATIENCE = 120.0
"""Seconds that compiling may take, for each variant and workload, unless the environment says another."""
MOST_SECONDS = 780.0
"""For all baselines of a task: what hangs for longer while a task is opened is taken for the task's own fault."""
PATIENCE_VARIABLE = "WARPSMITH_COMPILE_SECONDS"
VARIANTS = (EAGER, *COMPILED)
VARIANTS_VARIABLE = "WARPSMITH_BASELINES"
"""Names the baselines to time, where not all of them are wanted: `eager,compile`. PyTorch itself is always timed."""
_ROWS = "rows.json"
_Rows: TypeAdapter[list[Row]] = TypeAdapter(list[Row])


@dataclass(frozen=True)
class Baseline:
    """How long the reference takes on one workload, and what one call of it moves and computes."""

    timed: tuple[BaselineFacts, ...]
    """At least one."""
    flops: float | None
    bytes: float

    @property
    def counted(self) -> BaselineFacts:
        """The fastest, which a kernel is compared with."""
        return min(self.timed, key=lambda each: each.seconds)

    @property
    def seconds(self) -> float:
        return self.counted.seconds

    @property
    def interval(self) -> Interval:
        return self.counted.interval


def time_baselines(reference: Reference, source: ContentSource, device: str) -> tuple[list[Baseline], tuple[str, ...]]:
    """One for each workload, and notes. The caller holds the device, whose id is `device`.

    Raises TaskError, and InfrastructureError when PyTorch's own process fails.
    """
    workloads = range(len(reference.workloads))
    if not reference.on_gpu:
        notes = () if reference.source.kind == "numpy" else ("torch.compile is timed on a GPU only",)
        return [_timed_here(reference, source, index) for index in workloads], notes
    rows = torch_rows([(reference.source, wanted_variants())], device)[reference.source.id]
    found = []
    for index in workloads:
        content = source.fresh(index)
        figures = reference.flops(index, content.inputs), reference.bytes_moved(index, content.inputs)
        found.append(Baseline(facts_of(rows, index), *figures))
    failed = [row for row in rows if row.status == "failed"]
    named = len(reference.workloads) > 1
    return found, tuple(
        f"the baseline {row.variant} could not be timed"
        f"{f' on {reference.workloads[row.workload].name}' if named else ''}: {row.why}"
        for row in failed
    )


def torch_rows(wanted: Sequence[tuple[TaskSource, tuple[str, ...]]], device: str) -> dict[str, list[Row]]:
    """What the named variants take on the tasks' workloads, by task id; known rows come from the cache folder.

    All tasks that are not known are timed in one process. The caller holds the device. Raises InfrastructureError for a
    task without a time of PyTorch itself.
    """
    patience = compile_seconds()
    fresh: dict[str, list[Row]] = {}
    found: dict[str, list[Row]] = {}
    for number, (source, variants) in enumerate(wanted):

        def make(folder: Path, source: TaskSource = source, number: int = number) -> None:
            if source.id not in fresh:
                jobs = [Job(source=each, variants=names, patience=patience) for each, names in wanted[number:]]
                fresh.update(run_jobs(jobs))
            _require_eager(source, fresh[source.id])
            (folder / _ROWS).write_bytes(_Rows.dump_json(fresh[source.id]))

        entry = stored("baseline", [source.id, device, _method(), f"{patience:g}", *variants], make)
        found[source.id] = _Rows.validate_json((entry / _ROWS).read_bytes())
    return found


def compile_seconds() -> float:
    """Raises InfrastructureError for a setting that is no number of seconds."""
    given = os.environ.get(PATIENCE_VARIABLE, str(PATIENCE))
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InfrastructureError(f"{PATIENCE_VARIABLE}={given} is no number of seconds", "Unset it, or give one.")
    return seconds


def wanted_variants() -> tuple[str, ...]:
    """Raises InfrastructureError for a setting that names no baseline."""
    given = os.environ.get(VARIANTS_VARIABLE, ",".join(VARIANTS))
    names = {name.strip() for name in given.split(",") if name.strip()}
    if not names <= set(VARIANTS):
        raise InfrastructureError(
            f"{VARIANTS_VARIABLE}={given} names no baseline", f"Choose from {', '.join(VARIANTS)}."
        )
    return tuple(name for name in VARIANTS if name in names or name == EAGER)


def _require_eager(source: TaskSource, rows: list[Row]) -> None:
    timed = {row.workload for row in rows if row.variant == EAGER and row.status == "timed"}
    if timed != set(range(len(source.workloads))):
        why = next((row.why for row in rows if row.status == "failed"), "its process ended")
        raise InfrastructureError(f"PyTorch itself could not be timed on {source.name}: {why}", "Try again.")


def run_jobs(jobs: Sequence[Job], most: float = float("inf")) -> dict[str, list[Row]]:
    """Time the tasks in one process, which is ended with all that it started, after `most` seconds beside its start at
    the latest. By task id; what it left undone is a failed row."""
    each = (len(job.source.workloads) * len(job.variants) * job.patience for job in jobs)
    most = min(most, sum(min(seconds, MOST_SECONDS) for seconds in each))
    with tempfile.TemporaryDirectory(prefix="warpsmith-torch-") as folder:
        root = str(Path(__file__).resolve().parent.parent)
        environment = without_secrets() | {
            "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))),
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "TRITON_CACHE_DIR": f"{folder}/triton",
        }
        ended = run_command(
            [sys.executable, "-P", "-m", torch_baseline.__name__],
            timeout=START_SECONDS + most,
            cwd=Path(folder),
            env=environment,
            stdin=Jobs.dump_json(list(jobs)),
            output_limit=64 << 20,
        )
    rows = [row for line in ended.stdout.splitlines() if (row := _row(line)) is not None]
    found = {job.source.id: [row for row in rows if row.task == job.source.id] for job in jobs}
    if not ended.ok:
        words = "it took too long" if ended.timed_out else (ended.stderr.strip().splitlines() or ["it crashed"])[-1]
        for job in jobs:
            found[job.source.id] += _missing(job, found[job.source.id], words[:300])
    return found


def _row(line: str) -> Row | None:
    """None for a line that was cut when its process was ended."""
    try:
        return Row.model_validate_json(line)
    except ValidationError:
        return None


def _missing(job: Job, rows: list[Row], why: str) -> list[Row]:
    """Failed rows for all that a process left undone."""
    known = {(row.workload, row.variant) for row in rows}
    return [
        Row(task=job.source.id, workload=workload, variant=variant, status="failed", why=why)
        for workload in range(len(job.source.workloads))
        for variant in job.variants
        if (workload, variant) not in known
    ]


def facts_of(rows: Sequence[Row], workload: int) -> tuple[BaselineFacts, ...]:
    """The times of one workload's variants."""
    samples: dict[str, list[float]] = {}
    for row in rows:
        if row.workload == workload and row.status == "timed":
            samples.setdefault(row.variant, []).extend(row.samples)
    return tuple(_facts(name, values) for name, values in samples.items())


def _facts(name: str, samples: Sequence[float]) -> BaselineFacts:
    return BaselineFacts(
        name=name, seconds=statistics.median(samples), interval=median_interval(samples), samples=len(samples)
    )


@functools.cache
def _method() -> str:
    """What decides the times beside task and device: the version of PyTorch, and how it is timed."""
    torch = importlib.import_module("torch")
    return f"{torch.__version__}\n{Path(torch_baseline.__file__).read_text()}"


def _timed_here(reference: Reference, source: ContentSource, workload: int) -> Baseline:
    """The first call only warms up, unless it alone takes the budget."""
    runner = BaselineRunner(reference)
    content = source.fresh(workload)
    flops = reference.flops(workload, content.inputs)
    moved = reference.bytes_moved(workload, content.inputs)
    begin = time.perf_counter()
    runner.call(content)
    if time.perf_counter() - begin < BASELINE_SECONDS:
        runner.drop_readings()
    least, most = BASELINE_ROUNDS
    for number in range(most):
        spent = time.perf_counter() - begin
        if spent > BASELINE_SECONDS and (number >= least or spent > 10 * BASELINE_SECONDS):
            break
        runner.call(source.timed(workload))
    name = "numpy" if reference.source.kind == "numpy" else EAGER
    return Baseline((_facts(name, runner.seconds(workload)),), flops, moved)
