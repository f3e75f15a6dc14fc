"""What docs/gpu.md says was seen on an H200, held against the records that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/golden/h200"
TEXT = (ROOT / "docs/gpu.md").read_text()
PARTS = {
    "`build`": ("build",),
    "`correct` and `deterministic`": ("correct", "deterministic"),
    "`memory-safe`": ("memory-safe",),
    "`time` and `audit`": ("time", "audit"),
}
COLUMNS = (
    "judge/speed.json",
    "speed/speed_first.json",
    "speed/speed_before.json",
    "speed/speed_slower.json",
    "speed/speed.json",
)


def record(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text())


def table_row(beginning: str) -> list[str]:
    line = next(line for line in TEXT.splitlines() if line.strip().startswith(f"| {beginning}"))
    return [cell.strip() for cell in line.strip().strip("|").split("|")][1:]


def in_words(values: list[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} \N{EN DASH} {high}"


def test_every_record_and_test_that_is_named_is_there() -> None:
    named = set(re.findall(r"`((?:judge|live|speed)/[\w.]+\.json)`", TEXT))
    assert len(named) > 8
    assert [name for name in sorted(named) if not (GOLDEN / name).is_file()] == []
    paths = set(re.findall(r"tests/[\w/]+\.(?:py|toml|json)", TEXT))
    assert len(paths) > 8 and [path for path in sorted(paths) if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(("row", "stages"), PARTS.items(), ids=lambda each: str(each)[:24])
def test_seconds_of_a_verdict_by_stage_are_the_recorded_ones(row: str, stages: tuple[str, ...]) -> None:
    for cell, name in zip(table_row(row), COLUMNS, strict=True):
        assert cell == in_words([sum(r["stages"][s] for s in stages) for r in record(name)["speed"]["rows"]]), name


def test_seconds_of_whole_verdicts_are_the_recorded_ones() -> None:
    for cell, name in zip(table_row("whole"), COLUMNS, strict=True):
        assert cell == in_words([row["whole_seconds"] for row in record(name)["speed"]["rows"]]), name
    for cell, name in zip(table_row("of it the harness's own")[1:], COLUMNS[1:], strict=True):
        assert cell == in_words([row["own_seconds"] for row in record(name)["speed"]["rows"]]), name


def test_peaks_are_the_recorded_ones() -> None:
    peaks = record("judge/kernelbench.json")["peaks"]["peak_flops"]
    said = re.search(r"Peaks measured there: (.*), in 10¹² operations", TEXT)
    assert said is not None
    told = {name.lower(): int(figure) for figure, name in (each.split() for each in said[1].split(", "))}
    assert told == {name: round(value / 1e12) for name, value in peaks.items()}
    found = [row["facts"]["hardware"] for row in record("judge/examples.json")["examples"].values()]
    said = re.search(r"measured peaks (\S+) TB/s copy, (\S+) to (\S+) TB/s read, (\S+) TB/s write", TEXT)
    assert said is not None
    read = [each["read_bandwidth"] for each in found]
    figures = [max(each["copy_bandwidth"] for each in found), min(read), max(read)]
    figures.append(max(each["write_bandwidth"] for each in found))
    assert list(said.groups()) == [f"{figure / 1e12:.1f}" for figure in figures]
