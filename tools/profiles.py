"""What a profile says: figures, the lines of the source that matter, and where the kernel stands under the roofs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tools.counters import Counters
from tools.device_code import DeviceCode
from tools.records import Record


class Metric(Record):
    """One measured figure."""

    name: str
    value: float
    unit: str
    source: Literal["perf", "valgrind", "compiler", "clock", "ncu"]


class SourceLine(Record):
    """A line of the kernel's source that matters, and why."""

    file: str
    line: int
    text: str
    note: str
    share: float | None = None
    """Fraction of the instructions (or of the named event) on this line."""


class Roofline(Record):
    """Where the kernel stands under the measured roofs. `flops` is absent when the operation count is unknown."""

    bytes: float
    seconds: float
    peak_bandwidth: float
    flops: float | None = None
    peak_flops: float | None = None


class Profile(Record):
    """What the machine really did. What could not be measured is in `missing`, never a 0 in `metrics`."""

    kernel: str
    workload: str
    bottleneck: Literal["memory", "compute", "latency", "overhead"]
    evidence: tuple[str, ...] = Field(min_length=1)
    metrics: tuple[Metric, ...]
    missing: tuple[str, ...] = ()
    hot_lines: tuple[SourceLine, ...] = ()
    vectorization: tuple[SourceLine, ...] = ()
    roofline: Roofline
    counters: Counters | None = None
    """Of a GPU; absent on a CPU."""

    @model_validator(mode="after")
    def _only_read_counters_have_figures(self) -> Profile:
        counted = self.counters is not None and self.counters.status == "counted"
        if not counted and any(metric.source == "ncu" for metric in self.metrics):
            raise ValueError("a profile without GPU counters has no ncu metrics")
        return self


class StaticProfile(Record):
    """What the build of a CUDA kernel tells where the kernel does not run: no time, and so no bottleneck."""

    kernel: str
    device: DeviceCode
    evidence: tuple[str, ...]
    metrics: tuple[Metric, ...]
    missing: tuple[str, ...] = Field(min_length=1)
