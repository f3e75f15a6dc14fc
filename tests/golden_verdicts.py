"""The verdicts that were recorded on an H200, one by one, for tests that put their figures through the judge."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue, TypeAdapter

from tools.clock import Allowance, Clocks, Reading, Rows
from tools.cuda_device import CudaDevice
from tools.records import Accepted, Rejected, Stage
from tools.torch_cuda_process import TorchCudaWorker

GOLDEN = Path(__file__).parent / "golden/h200/judge"
NATIVE, TORCH = "fixtures", "torch_fixtures"
SECTIONS = (NATIVE, TORCH, "examples")
ALLOWANCES: Mapping[str, Allowance] = {
    NATIVE: CudaDevice.allowance,
    "examples": CudaDevice.allowance,
    TORCH: TorchCudaWorker.allowance.fget(TorchCudaWorker.__new__(TorchCudaWorker)),  # type: ignore[attr-defined]
}
VERDICT: TypeAdapter[Accepted | Rejected] = TypeAdapter(Accepted | Rejected)


class Row(NamedTuple):
    section: str
    name: str
    verdict: Accepted | Rejected

    @property
    def allowance(self) -> Allowance:
        return ALLOWANCES[self.section]

    def __str__(self) -> str:
        return f"{self.section}-{self.name}"


class Timed(NamedTuple):
    """What the two clocks said of one workload in one session of an accepted kernel, as its stage tells it."""

    row: Row
    stage: Stage
    workload: str
    told: Mapping[str, Any]

    @property
    def inner(self) -> float:
        return float(self.told["inner_seconds"])

    @property
    def in_a_row(self) -> Rows | None:
        """None where single calls are long enough, or such rows can't be had."""
        return Rows(**self.told["in_a_row"]) if "in_a_row" in self.told else None

    def clocks(self, *, hidden: float = 0.0) -> Clocks:
        """One call and one round trip with the recorded gap between them, and `hidden` seconds that only the judge's
        clock has seen."""
        trip = self.told["round_trip_seconds"]
        outer = self.inner + self.told["gap_seconds"] + trip + hidden
        return Clocks((Reading(self.inner, outer),), (trip,), self.row.allowance)

    def __str__(self) -> str:
        return f"{self.row}-{self.stage}-{self.workload}"


@functools.cache
def rows() -> tuple[Row, ...]:
    found = []
    for section in SECTIONS:
        record = json.loads((GOLDEN / f"{section}.json").read_text())
        assert record["chip"] == "NVIDIA H200" and record["driver"] and record["date"]
        found += [Row(section, name, VERDICT.validate_python(row["verdict"])) for name, row in record[section].items()]
    return tuple(found)


def accepted() -> list[Row]:
    return [row for row in rows() if isinstance(row.verdict, Accepted)]


def rejected() -> list[Row]:
    return [row for row in rows() if isinstance(row.verdict, Rejected)]


def details(row: Row, stage: Stage) -> Mapping[str, JsonValue]:
    return next(report.details for report in row.verdict.stages if report.stage == stage)


def timed(row: Row) -> Iterator[Timed]:
    """Both sessions of an accepted kernel."""
    for stage in ("time", "audit"):
        clocks: Any = details(row, stage)["clocks"]
        yield from (Timed(row, stage, workload, told) for workload, told in clocks.items())
