"""Points every instrument that is here at one recorded workload, and adds up what they find.

Each stands alone: one that fails or is not here adds a line to `missing`, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.device_lock import device_lock
from tools.errors import InfrastructureError, KernelError
from tools.profilers import perf, sampling, valgrind
from tools.profilers.replay import Replay, count_regions
from tools.profiles import Metric, SourceLine
from tools.records import Kernel
from tools.targets.base import Build
from tools.toolchain import find_compiler

COUNTING_SECONDS: Final = 0.5
"""Wall time that the calls under perf should take together."""
MOST_CALLS: Final = 2000
SIMULATED_SECONDS: Final = 8
"""CPU time after which valgrind's run is cut off."""
PATIENCE: Final = 60
"""Seconds after which an instrument is given up."""
NARROW: Final = (
    ", in a build for AVX2 since valgrind cannot run AVX-512: vector loops may count twice the instructions, and large "
    "register blocks may spill"
)


@dataclass(frozen=True)
class Subject:
    """What is profiled: a kernel, its native build, how to build it for valgrind, and its recorded workload."""

    kernel: Kernel
    library: Path
    simulated_build: Callable[[], Build]
    """Raises KernelError when there is no such build."""
    replay: Replay
    seconds: float
    """Time of one cold call."""

    @property
    def calls(self) -> int:
        """How many calls fill the counting time."""
        return max(1, min(MOST_CALLS, round(COUNTING_SECONDS / max(self.seconds, 1e-6))))


@dataclass
class Findings:
    """What the instruments add up to."""

    metrics: list[Metric] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Figure to the reason why it was not measured; such a figure is nowhere else."""
    evidence: list[str] = field(default_factory=list)
    hot_lines: tuple[SourceLine, ...] = ()
    regions: int | None = None
    fork_seconds: float | None = None

    @property
    def missing_lines(self) -> tuple[str, ...]:
        """What is missing, one line a reason: `cycles, ipc: this machine gives no hardware counters`."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.missing.items():
            reasons.setdefault(reason, []).append(name)
        return tuple(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def gather(subject: Subject) -> Findings:
    """Hardware counters where there are some, else valgrind's simulation; regions and hot lines in any case."""
    findings = Findings()
    _count_regions(subject, findings)
    _sample(subject, findings)
    reason = perf.missing_reason()
    if reason is None:
        _count_events(subject, findings)
    else:
        _simulate(subject, findings)
        have = {metric.name for metric in findings.metrics}
        for name, _, _ in perf.METRICS:
            if name not in have:
                findings.missing.setdefault(name, reason)
    return findings


def _count_regions(subject: Subject, findings: Findings) -> None:
    try:
        with device_lock():
            regions = count_regions(subject.replay, subject.library, PATIENCE)
    except InfrastructureError as error:
        findings.missing["parallel_regions"] = error.message
        return
    findings.regions, findings.fork_seconds = regions.count, regions.fork_seconds
    findings.metrics.append(Metric(name="parallel_regions", value=regions.count, unit="regions/call", source="clock"))


def _sample(subject: Subject, findings: Findings) -> None:
    """Hot lines of the native build by time; without the right to sample, valgrind's by instructions have to do."""
    replay = subject.replay
    program = replay.program(subject.library, subject.calls, PATIENCE)
    argv = replay.confined(program, subject.library, observed=True)
    try:
        with device_lock():
            samples = sampling.sample(argv, subject.library, replay.folder / "samples", PATIENCE)
    except InfrastructureError as error:
        findings.missing["time by source line"] = error.message
        return
    findings.hot_lines = sampling.hot_lines(samples, subject.kernel.files)
    if samples.total >= sampling.LEAST:
        share = samples.waiting / samples.total
        findings.metrics.append(Metric(name="openmp_wait", value=share, unit="fraction of samples", source="perf"))
    else:
        findings.missing["time by source line"] = f"only {samples.total} samples fell into the kernel"


def _count_events(subject: Subject, findings: Findings) -> None:
    """Hardware counters of one call: a run with the calls less the same run without them."""
    replay, counts = subject.replay, []
    try:
        with device_lock():
            for modes in (("flush",), ("flush", "empty")):
                program = replay.program(subject.library, subject.calls, PATIENCE, *modes)
                argv = replay.confined(program, subject.library, observed=True)
                counts.append(perf.count(argv, replay.folder / "events", PATIENCE, replay.environment()))
    except InfrastructureError as error:
        findings.missing.update({name: error.message for name, _, _ in perf.METRICS})
        return
    metrics, missing = perf.metrics(perf.per_call(counts[0], counts[1], subject.calls))
    findings.metrics += metrics
    findings.missing.update(dict.fromkeys(missing, "this processor's counters do not give it"))
    findings.evidence.append(f"hardware counters are the mean of {subject.calls} calls with cold caches")


def _simulate(subject: Subject, findings: Findings) -> None:
    """Valgrind's figures, and what it knows of each line."""
    try:
        full, empty = _simulated(subject)
    except InfrastructureError as error:
        findings.missing["simulated instruction and cache figures"] = error.message
        return
    metrics, missing = valgrind.metrics(valgrind.difference(full.result, empty.result), full.complete)
    findings.metrics += metrics
    reason = "there was nothing to count" if full.complete else "the simulated call was cut off"
    findings.missing.update(dict.fromkeys(missing, reason))
    note = NARROW if "avx512f" in find_compiler().cpu.split() else ""
    extent = "one call" if full.complete else f"the first {SIMULATED_SECONDS} s of simulation of one call"
    findings.evidence.append(f"instruction and cache figures are simulated by valgrind: {extent}, one thread{note}")
    findings.hot_lines = _joined(findings.hot_lines, valgrind.hot_lines(full.result, subject.kernel.files))


def _simulated(subject: Subject) -> tuple[valgrind.Simulation, valgrind.Simulation]:
    """One call under valgrind, and the same program without the call. InfrastructureError says why there is none."""
    if (reason := valgrind.missing_reason()) is not None:
        raise InfrastructureError(reason)
    try:
        library = subject.simulated_build().library
    except KernelError as error:
        raise InfrastructureError("the kernel does not build for an instruction set that valgrind can run") from error
    assert library is not None
    replay, runs = subject.replay, []
    with device_lock(shared=True):
        for modes in ((), ("empty",)):
            output = replay.folder / "-".join(("cachegrind", *modes))
            command = valgrind.command(output, replay.program(library, 1, SIMULATED_SECONDS, *modes))
            argv = replay.confined(command, library, instrument=True)
            runs.append(valgrind.simulate(argv, output, SIMULATED_SECONDS + PATIENCE, replay.environment(threads=1)))
    return runs[0], runs[1]


def _joined(by_time: tuple[SourceLine, ...], by_count: tuple[SourceLine, ...]) -> tuple[SourceLine, ...]:
    """Lines by time, each with what the simulation says of it; lines by instructions where time was not seen."""
    notes = {(line.file, line.line): line.note for line in by_count}
    if not by_time:
        return by_count
    return tuple(
        line.model_copy(update={"note": "; ".join(filter(None, (line.note, notes.get((line.file, line.line)))))})
        for line in by_time
    )
