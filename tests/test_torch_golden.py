"""What an H200 said of torch kernels, recorded by tests/h200/torch_on_gpu.py; rows that were not run are not there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.records import Kernel
from tools.screen import screen
from tools.targets.choice import target_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/h200"))

import torch_kernels_on_gpu as kernels  # type: ignore[import-not-found]  # noqa: E402
from torch_on_gpu import WANTED  # type: ignore[import-not-found]  # noqa: E402

RECORD: dict[str, Any] = json.loads((ROOT / "tests/golden/h200/judge/torch.json").read_text())
ROWS: dict[str, dict[str, Any]] = {
    name: row
    for section in ("softmax", "kernelbench")
    for name, row in RECORD.get(section, {}).items()
    if "status" in row
}
TEXTS = {name: text for name, text in vars(kernels).items() if isinstance(text, str) and "class ModelNew" in text}
TEXTS |= {**kernels.FAULTS, **kernels.UNSAFE, **kernels.SAFE}


def test_the_record_names_its_chip_driver_and_date() -> None:
    assert RECORD["chip"] == "NVIDIA H200"
    assert RECORD["driver"] and RECORD["date"]
    assert ROWS.keys() == WANTED.keys() - {*kernels.FAULTS, *kernels.UNSAFE, *kernels.SAFE}


@pytest.mark.parametrize("name", ROWS)
def test_every_recorded_verdict_is_the_right_one(name: str) -> None:
    row, (stage, reasons) = ROWS[name], WANTED[name]
    if stage == "accepted":
        assert row["status"] == "accepted"
    else:
        assert (row["status"], row["stage"]) == ("rejected", stage)
        assert row["reason"] in reasons


@pytest.mark.parametrize("name", ROWS)
def test_a_worker_was_ready_within_a_second_and_left_no_memory_behind(name: str) -> None:
    row = ROWS[name]
    assert row["details"]["correct"].get("worker_seconds", 0.0) < 1.0
    if name in RECORD["softmax"]:  # else the judge's own reference works on the device, and keeps memory
        assert row["free_bytes"]["after"] >= row["free_bytes"]["before"] - (1 << 20)


def row_apart(section: str, name: str) -> dict[str, Any]:
    """The row of a section with a record of its own, its verdict being the right one."""
    path = ROOT / f"tests/golden/h200/judge/torch_{section}.json"
    record: dict[str, Any] = json.loads(path.read_text())
    assert "H200" in record["chip"] and record["driver"] and record["date"].startswith("20")
    row: dict[str, Any] = record[section][name]
    stage, reasons = WANTED[name]
    if stage == "accepted":
        assert row["status"] == "accepted"
    else:
        assert (row["status"], row["stage"]) == ("rejected", stage) and row["reason"] in reasons
    return row


@pytest.mark.parametrize(("name", "tool"), [*zip(kernels.UNSAFE, ("memcheck", "initcheck", "racecheck"), strict=True)])
def test_a_sanitizer_finds_what_right_results_hide(name: str, tool: str) -> None:
    assert f"({tool})" in row_apart("sanitizers", name)["message"]


@pytest.mark.parametrize("name", ["triton", *kernels.SAFE])
def test_every_sanitizer_looked_at_a_kernel_that_is_safe(name: str) -> None:
    told = row_apart("sanitizers", name)["details"]["memory-safe"]
    assert {"memcheck", "racecheck", "initcheck"} <= {each.rpartition("/")[2] for each in told["checked"]}
    assert "could_not_check" not in told and "reads outside of arrays" in told["not_covered"]


@pytest.mark.parametrize("name", kernels.FAULTS)
def test_a_fault_costs_its_own_worker_and_nobody_else(name: str) -> None:
    """It is ended for what it is, its memory is free again, the next verdict is right, and another judge's worker,
    called all the while, goes on giving right results."""
    row = row_apart("faults", name)
    assert row["free_bytes"]["after"] >= row["free_bytes"]["before"] - (1 << 20)
    assert row["next"] == "accepted" and row["right_calls_beside"] > 0


@pytest.mark.parametrize("name", TEXTS)
def test_the_kernels_pass_the_screen_and_are_for_a_gpu_by_what_they_say(name: str, monkeypatch: Any) -> None:
    kernel = Kernel(language="torch", files={"kernel.py": TEXTS[name]})
    assert screen(kernel) == ()
    monkeypatch.setattr("tools.targets.choice.find_devices", lambda: ())
    plainly = any(word in TEXTS[name] for word in ("triton", "cupy", "__global__"))
    assert target_of(["torch"], [kernel]) == ("cuda" if plainly else "cpu")
