"""Runs Nsight Compute on a program that launches the kernel and little else, and says why when it can't.

Clocks are left alone (`--clock-control none`): locking them needs rights, and the judge times at free clocks too.
Caches are flushed before each pass, as in the judge's timing. Not covered: the fallback without counters, which a
caller makes when it gets `Uncounted`.
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.cache import stored
from tools.counters import Fault, Uncounted
from tools.errors import InfrastructureError
from tools.process import Completed, run_command
from tools.profilers.ncu_metrics import can_be_asked, named, parse_query, validate
from tools.profilers.ncu_report import Findings, Pages, read_report

SECTIONS: Final = (
    "SpeedOfLight",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "SchedulerStats",
    "WarpStateStats",
    "InstructionStats",
    "LaunchStats",
    "Occupancy",
    "SourceCounters",
    "WorkloadDistribution",
)
"""What the table and ncu's rules need. Sampling over time is left out: it adds passes, and nothing here reads it."""
COLLECTIONS: Final = ("profiling", "launch")
PAGES: Final = ("raw", "details", "source")
PAGE_SECONDS: Final = 60.0
PAGE_BYTES: Final = 64 << 20
INSTALLATIONS: Final = ("/opt/nvidia/nsight-compute",)
PLACES: Final = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
UNKNOWN_METRIC: Final = "Failed to find metric"
QUERY: Final = "metrics.txt"
_TELLS: Final = re.compile(r"NVRM version|Model:")
_PROFILED: Final = re.compile(r"==PROF== Profiling ")


@dataclass(frozen=True)
class Wanted:
    """Which launches are profiled, and what is read of them."""

    kernels: tuple[str, ...] = ()
    """Function names without arguments; any kernel when empty."""
    skip: int = 0
    """Matching launches left out first, as warm-up."""
    count: int = 1
    """Launches profiled: as many as one call of the kernel's entry makes."""
    sections: tuple[str, ...] = SECTIONS
    metrics: tuple[str, ...] = ()
    """Further metrics, by ncu's names."""


ADVICE: Final[dict[Fault, tuple[str, str]]] = {
    "no_permission": (
        "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)",
        "An administrator can allow it: NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module, or CAP_SYS_ADMIN"
        " for the container.",
    ),
    "no_profiler": ("Nsight Compute (ncu) is not installed", "It comes with the CUDA toolkit; put ncu on the PATH."),
    "unsupported": ("Nsight Compute can't profile this device or driver", "Another version of ncu may fit the driver."),
    "busy": ("another tool is reading the GPU's counters", "Stop it (DCGM, another profiler), then profile again."),
    "timeout": ("the profiler did not end in time", "A kernel whose blocks wait for each other can't be replayed."),
    "no_kernels": ("the profiler saw no launch of the kernel", "Does the entry launch it under that name?"),
    "program_failed": ("the kernel failed under the profiler", "Run it first; a race may show only here."),
    "metrics_missing": ("the profiler delivered too little to tell a limit from a wait", ""),
    "failed": ("the profiler failed", "Run the command by hand to see more."),
}

SIGNS: Final[tuple[tuple[Fault, re.Pattern[str]], ...]] = (
    ("no_permission", re.compile(r"ERR_NVGPUCTRPERM|does not have permission to (access|profile)")),
    ("busy", re.compile(r"driver resource was unavailable|nsight-compute-lock")),
    (
        "unsupported",
        re.compile(
            r"Failed to initialize the profiler|not compatible with Nsight Compute|LibraryNotLoaded"
            r"|[Pp]rofiling is not supported on|not supported on this (device|GPU)",
        ),
    ),
)
"""What ncu writes when it can't read counters, which decides over anything else that it wrote."""


def find_ncu() -> str | None:
    """Where ncu is: on the PATH, else where the toolkit puts it (the newest)."""
    if (found := shutil.which("ncu")) is not None:
        return found
    places = [place for pattern in PLACES for place in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)]
    return next((str(place) for place in places if place.is_file()), None)


def folders_of(ncu: str) -> tuple[Path, ...]:
    """What a confined ncu needs to see: its own installation, and that behind the toolkit's wrapper script."""
    own = Path(ncu).resolve().parent
    return tuple(dict.fromkeys(path for path in (own, *map(Path, INSTALLATIONS)) if path.is_dir()))


def collect_command(
    ncu: str, program: Sequence[str], report: Path, wanted: Wanted, metrics: Sequence[str]
) -> list[str]:
    """The command that profiles `program` into `report` (`.ncu-rep` is added when it has no such ending)."""
    command = [ncu, "--clock-control", "none", "--cache-control", "all", "--force-overwrite", "--export", str(report)]
    command += ["--import-source", "yes", "--kernel-name-base", "function"]
    if wanted.kernels:
        command += ["--kernel-name", f"regex:(^|::)({'|'.join(re.escape(name) for name in wanted.kernels)})(<|$)"]
    command += ["--launch-skip", str(wanted.skip), "--launch-count", str(wanted.count)]
    for section in wanted.sections:
        command += ["--section", section]
    if metrics:
        command += ["--metrics", ",".join(metrics)]
    return [*command, *program]


def page_command(ncu: str, report: Path, page: str) -> list[str]:
    """The command that prints one page of a report as CSV, in base units."""
    command = [ncu, "--import", str(report), "--csv", "--print-units", "base", "--page", page]
    return [*command, "--print-source", "cuda,sass"] if page == "source" else command


def fault_of(ran: Completed, has_report: bool) -> Uncounted | None:
    """Why a run of ncu gave no report, or None when it gave one. ncu ends with the program's own exit code, so that a
    failure of the program after its launches were profiled is no fault."""
    said = f"{ran.stdout}\n{ran.stderr}"
    reason: Fault | None = next((fault for fault, sign in SIGNS if sign.search(said)), None)
    if reason is None and ran.timed_out:
        reason = "timeout"
    if reason is None and _PROFILED.search(said) and has_report:
        return None
    if reason is None and re.search(r"==ERROR==.*(does not exist|did not match|is invalid)", said):
        reason = "failed"
    if reason is None and re.search(r"application returned an error code|LaunchFailed|UnknownError", said):
        reason = "program_failed"
    if reason is None:
        reason = "no_kernels" if re.search(r"No kernels were profiled|==PROF== Disconnected", said) else "failed"
    errors = [line for line in said.splitlines() if line.startswith("==ERROR==")]
    return uncounted(reason, errors[-1].removeprefix("==ERROR==").strip() if errors else "")


def uncounted(reason: Fault, detail: str = "") -> Uncounted:
    """The record for a fault, with what ncu said and what to do about it."""
    what, advice = ADVICE[reason]
    said = f"{what}: {detail.rstrip('.')}" if detail and reason != "no_permission" else what
    return Uncounted(reason=reason, message=f"{said}. {advice}".rstrip())


@functools.cache
def chip_metrics(ncu: str) -> frozenset[str]:
    """Base names of the metrics that the devices here have; empty when ncu can't tell. Asked once for each version of
    ncu, driver and chip: it takes seconds."""
    try:
        folder = stored("ncu", _identity(ncu), lambda folder: _ask_metrics(ncu, folder))
        return parse_query((folder / QUERY).read_text())
    except _Incomplete as answer:
        return parse_query(answer.text)
    except OSError:
        return frozenset()


class _Incomplete(Exception):
    """ncu did not tell all, so what it told is not kept."""

    def __init__(self, text: str) -> None:
        super().__init__("the metrics of this chip are not all known")
        self.text = text


def _ask_metrics(ncu: str, folder: Path) -> None:
    commands = [[ncu, "--query-metrics", "--query-metrics-collection", each] for each in COLLECTIONS]
    with ThreadPoolExecutor(len(commands)) as pool:
        ran = list(pool.map(lambda one: run_command(one, timeout=PAGE_SECONDS, output_limit=PAGE_BYTES), commands))
    text = "\n".join(each.stdout for each in ran if each.ok)
    if not all(each.ok for each in ran) or not parse_query(text):
        raise _Incomplete(text)
    (folder / QUERY).write_text(text)


def _identity(ncu: str) -> list[str]:
    """What the answer hangs on: the program, the driver, and the models of the devices."""
    program = Path(ncu).resolve()
    place = Path("/proc/driver/nvidia")
    told = [*place.glob("version"), *sorted(place.glob("gpus/*/information"))]
    lines = [line for path in told for line in path.read_text(errors="replace").splitlines() if _TELLS.match(line)]
    status = program.stat()
    return [str(program), str(status.st_size), str(status.st_mtime_ns), *lines]


def collect(
    program: Sequence[str],
    *,
    files: Mapping[str, str],
    wanted: Wanted,
    folder: Path,
    timeout: float,
    env: Mapping[str, str],
    confine: Callable[[list[str]], list[str]] = list,
) -> Findings | Uncounted:
    """Profile the launches that `program` makes; `folder` is where the report and ncu's own lock file go. `confine`
    puts a command behind a sandbox: of the run, and of reading the report, which the run's program could have written.

    To be called with the device's lock held. `timeout` is in seconds, for the profiled run; reading the report comes
    on top. Never raises for what ncu can't do: that is `Uncounted`.
    """
    ncu = find_ncu()
    if ncu is None:
        return uncounted("no_profiler")
    report = folder / "report.ncu-rep"
    environment = {**env, "TMPDIR": str(folder)}
    try:
        names, _ = validate((*named(), *wanted.metrics), chip_metrics(ncu))
        metrics = [name for name in names if can_be_asked(name)]
        command = collect_command(ncu, program, report, wanted, metrics)
        ran = run_command(confine(command), timeout=timeout, env=environment, cwd=folder, output_limit=PAGE_BYTES)
        if UNKNOWN_METRIC in ran.stdout + ran.stderr:  # ends the run; the sections deliver what they have
            command = collect_command(ncu, program, report, wanted, ())
            ran = run_command(confine(command), timeout=timeout, env=environment, cwd=folder, output_limit=PAGE_BYTES)
        if (fault := fault_of(ran, report.is_file())) is not None:
            return fault
        with ThreadPoolExecutor(len(PAGES)) as pool:  # each takes half a second and more to load the report
            pages = list(
                pool.map(lambda page: _page(confine(page_command(ncu, report, page)), page, environment), PAGES)
            )
    except InfrastructureError as error:
        return uncounted("failed", error.message)
    return read_report(Pages(*pages), files, wanted.metrics)


def _page(command: list[str], page: str, env: Mapping[str, str]) -> str:
    ran = run_command(command, timeout=PAGE_SECONDS, env=env, output_limit=PAGE_BYTES)
    if not ran.ok or ran.truncated:
        raise InfrastructureError(f"the {page} page of the profiler's report can't be read")
    return ran.stdout
