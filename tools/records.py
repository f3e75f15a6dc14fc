"""The typed records that the parts exchange. A record's status decides which fields it has.

All of them are immutable and travel as JSON. Times are seconds, sizes are bytes, rates are per second, shares are
fractions of 1 unless a docstring says otherwise.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from tools.device_code import DeviceCode
from tools.machine_code import Listing

Language: TypeAlias = Literal["cpp", "cuda", "torch"]
TargetName: TypeAlias = Literal["cpu", "cuda"]
Policy: TypeAlias = Literal["strict", "tf32", "mixed"]
Stage: TypeAlias = Literal["screen", "build", "open", "correct", "deterministic", "memory-safe", "time", "audit"]

STAGES: tuple[Stage, ...] = ("screen", "build", "open", "correct", "deterministic", "memory-safe", "time", "audit")
"""`open` gets the task ready to judge, and is there only in the first evaluation that came so far."""

ENTRY_FILE: dict[Language, str] = {"cpp": "kernel.cpp", "cuda": "kernel.cu", "torch": "kernel.py"}


class Record(BaseModel):
    """An immutable record that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def content_id(value: object) -> str:
    """The first 16 hex digits of the SHA-256 of `value` as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Kernel(Record):
    """One candidate: sources and build settings. Content-addressed: equal content has an equal `id`."""

    language: Language
    files: dict[str, str]
    """Relative POSIX path to text; holds `ENTRY_FILE[language]`."""
    defines: dict[str, str] = {}
    """Values of declared tunables, passed as `-DNAME=VALUE`."""
    flags: tuple[str, ...] = ()
    """Extra compiler flags out of the target's allowed set."""

    @property
    def id(self) -> str:
        return content_id(self.model_dump(mode="json"))

    @model_validator(mode="after")
    def _has_entry_file(self) -> Kernel:
        if ENTRY_FILE[self.language] not in self.files:
            raise ValueError(f"a {self.language} kernel needs a file named {ENTRY_FILE[self.language]}")
        return self


class Diagnostic(Record):
    """One message of a compiler or sanitizer, tied to a source line where it has one."""

    severity: Literal["error", "warning", "note"]
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None


class BuildReport(Record):
    """What the compiler said. `built` false means `diagnostics` holds at least one error."""

    kernel: str
    built: bool
    seconds: float
    command: tuple[str, ...]
    """Empty when the kernel was refused before the compiler ran."""
    diagnostics: tuple[Diagnostic, ...] = ()
    output: str = ""
    cached: bool = False
    device: DeviceCode | None = None
    """Present when a kernel for a device was built."""
    listing: Listing | None = None
    """Present when machine code was asked for and the kernel was built."""

    @model_validator(mode="after")
    def _built_decides_fields(self) -> BuildReport:
        if not self.built and (self.device is not None or all(d.severity != "error" for d in self.diagnostics)):
            raise ValueError("a failed build has an error and no device code")
        if not self.built and self.listing is not None:
            raise ValueError("a failed build has no machine code to list")
        return self


class StageReport(Record):
    """Everything one stage of the gauntlet saw."""

    stage: Stage
    passed: bool
    seconds: float
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    details: dict[str, JsonValue] = {}
    build: BuildReport | None = None
    """Of the `build` stage, when the compiler could be asked."""

    @model_validator(mode="after")
    def _only_the_build_stage_has_a_build(self) -> StageReport:
        if self.build is not None and (self.stage != "build" or self.build.built != self.passed):
            raise ValueError("only the build stage has a build report, and both tell the same")
        return self


class Interval(Record):
    """A bootstrap confidence interval."""

    low: float
    high: float
    confidence: float = 0.95


class Mismatch(Record):
    """The first element that is wrong, and the worst slice. Values are text so that NaN and infinities survive JSON."""

    workload: str
    distribution: str
    output: str
    index: tuple[int, ...]
    expected: str
    actual: str
    error: float | None = None
    """Absolute error of the element; absent where it is not a number."""
    tolerance: float | None = None
    wrong: int = 1
    """How many elements are out of tolerance."""
    total: int = 1
    worst_slice: str = ""


class WorkloadTiming(Record):
    """How long one workload took. `seconds` is the median of fresh, cold-cache calls by the judge's accepted clock."""

    workload: str
    weight: float
    seconds: float
    interval: Interval
    samples: int
    baseline_seconds: float
    """Of the fastest baseline."""
    limit_seconds: float
    """Shortest time that the measured bandwidth and flop peaks allow."""
    incumbent_seconds: float | None = None
    baselines: dict[str, float] = {}
    """Seconds of every baseline by name: `numpy`, `eager`, `compile`, `compile-max-autotune`."""

    @property
    def compiled_seconds(self) -> float | None:
        """Of the better torch.compile, where one was timed."""
        return min((s for name, s in self.baselines.items() if name.startswith("compile")), default=None)


class Comparison(Record):
    """Candidate against incumbent, from paired interleaved samples. `ratio` = incumbent time / candidate time."""

    decision: Literal["faster", "same", "slower"]
    ratio: float
    interval: Interval


Reason: TypeAlias = Literal[
    "forbidden_source",
    "compile_error",
    "no_entry",
    "forbidden_library",
    "framework_op",
    "crashed",
    "exited",
    "timeout",
    "out_of_memory",
    "forbidden_syscall",
    "output_flood",
    "forged_answer",
    "wrong_result",
    "not_written",
    "input_modified",
    "nondeterministic",
    "memory_error",
    "late_work",
    "clocks_disagree",
    "below_limit",
]


class Accepted(Record):
    """The kernel passed every stage. Only an accepted verdict has times."""

    status: Literal["accepted"] = "accepted"
    kernel: str
    stages: tuple[StageReport, ...]
    timings: tuple[WorkloadTiming, ...] = Field(min_length=1)
    worst_error: float
    """Largest error as a fraction of its tolerance, over all checks (0 for exact outputs)."""
    comparison: Comparison | None = None
    """Present when an incumbent was raced."""
    cores_used_by_others: float | None = None
    """Present when other programs took so much of the machine during the last race that its times may read long."""
    throttled: float | None = None
    """Present when the device stayed throttled in timed calls, so that times may read long: in what share of them, on
    the workload that it met most."""

    @property
    def seconds(self) -> float:
        """Weighted geometric mean of the workloads' times."""
        return weighted_geomean([(t.weight, t.seconds) for t in self.timings])

    @property
    def speedup(self) -> float:
        """Baseline time / candidate time, weighted geometric mean over workloads."""
        return weighted_geomean([(t.weight, t.baseline_seconds / t.seconds) for t in self.timings])

    @property
    def speedup_over_eager(self) -> float | None:
        """As `speedup`, against PyTorch as it is; None unless it was timed beside torch.compile on every workload."""
        if self.speedup_over_compile is None:
            return None
        return self._speedup([t.baselines.get("eager") for t in self.timings])

    @property
    def speedup_over_compile(self) -> float | None:
        """As `speedup`, against the better torch.compile; None unless it was timed on every workload."""
        return self._speedup([t.compiled_seconds for t in self.timings])

    def _speedup(self, baselines: list[float | None]) -> float | None:
        pairs = [(t.weight, base / t.seconds) for t, base in zip(self.timings, baselines, strict=True) if base]
        return weighted_geomean(pairs) if len(pairs) == len(self.timings) else None

    @property
    def share_of_limit(self) -> float:
        """Limit time / candidate time, weighted geometric mean: 1.0 is all that the hardware allows."""
        return weighted_geomean([(t.weight, t.limit_seconds / t.seconds) for t in self.timings])


class Rejected(Record):
    """The kernel failed a stage. `stages` ends with the failing one."""

    status: Literal["rejected"] = "rejected"
    kernel: str
    stage: Stage
    reason: Reason
    message: str
    """One sentence for the model and the person."""
    stages: tuple[StageReport, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    mismatch: Mismatch | None = None

    @model_validator(mode="after")
    def _only_numeric_reasons_have_a_mismatch(self) -> Rejected:
        if self.mismatch is not None and self.reason not in (
            "wrong_result",
            "not_written",
            "nondeterministic",
            "late_work",
        ):
            raise ValueError(f"a {self.reason} verdict has no mismatch")
        if not self.stages or self.stages[-1].passed or self.stages[-1].stage != self.stage:
            raise ValueError("a rejected verdict ends with its failed stage")
        return self


class Unjudged(Record):
    """Nothing was learnt about the kernel: the machinery failed."""

    status: Literal["unjudged"] = "unjudged"
    kernel: str
    message: str
    stages: tuple[StageReport, ...] = ()


Verdict: TypeAlias = Annotated[Accepted | Rejected | Unjudged, Field(discriminator="status")]


class QuickResult(Record):
    """One variant of a `quick` run: light correctness and a short timing. Never a verdict."""

    kernel: str
    status: Literal["timed", "rejected"]
    seconds: float | None = None
    ratio: float | None = None
    """Incumbent time / variant time where an incumbent was given."""
    reason: Reason | None = None
    message: str = ""

    @model_validator(mode="after")
    def _status_decides_fields(self) -> QuickResult:
        if (self.status == "timed") != (self.seconds is not None) or (self.status == "rejected") != (
            self.reason is not None
        ):
            raise ValueError("a timed variant has seconds, a rejected one a reason")
        return self


def weighted_geomean(pairs: list[tuple[float, float]]) -> float:
    """Geometric mean of `(weight, value)` pairs; all values must be positive."""
    total = sum(weight for weight, _ in pairs)
    return math.exp(sum(weight * math.log(value) for weight, value in pairs) / total)
