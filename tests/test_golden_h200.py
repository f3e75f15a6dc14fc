"""What an H200 really did with the examples' CUDA kernels, as recorded by tests/h200/examples_on_gpu.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.tunables import parse_tunables

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(path.parent.name for path in ROOT.glob("examples/*/kernel.cu"))


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads((ROOT / "tests/golden/h200/examples_on_gpu.json").read_text())


def test_the_record_names_its_chip_driver_and_date(record: Any) -> None:
    assert "H200" in record["chip"]
    assert record["driver"] and record["nvcc"] and record["date"].startswith("20")


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_recorded_setting_was_right_and_is_still_declared(record: Any, example: str) -> None:
    rows = [row for row in record["results"] if row["example"] == example]
    declared = parse_tunables({"kernel.cu": (ROOT / "examples" / example / "kernel.cu").read_text()})
    assert len({json.dumps(row["settings"], sort_keys=True) for row in rows}) >= 5
    for row in rows:
        assert row["ok"], row
        assert row["error_share"] <= 1.0
        assert row["settings"].keys() == declared.keys()
        assert all(value in declared[name] for name, value in row["settings"].items())
