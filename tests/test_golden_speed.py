"""What an H200 showed of how far times can be trusted, and how long judging takes beside the usual way."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any, get_args

import pytest

from agents.steer_events import ExportForm

GOLDEN = Path(__file__).parent / "golden/h200"
AGREE, ALLOWED_RANGE, RATIO = 0.02, 0.03, 8.0


def recorded(path: str) -> Any:
    return json.loads((GOLDEN / f"{path}.json").read_text())[Path(path).name]


@pytest.mark.parametrize("workload", ["long_rows", "odd"])
def test_repeated_evaluations_agree(workload: str) -> None:
    """Calls of 13 and of 9 us."""
    found = recorded("speed/spread")
    times = found["seconds"][workload]
    middle = statistics.median(times)
    assert found["statuses"] == ["accepted"] * 20 and len(times) == 20
    assert max(abs(each - middle) for each in times) < AGREE * middle
    assert found["spread"][workload] == pytest.approx((max(times) - min(times)) / middle)
    assert found["spread"][workload] < ALLOWED_RANGE


def test_times_follow_the_addresses_and_not_the_memory_behind_them() -> None:
    """Why all workers have the same addresses."""
    found = recorded("speed/addresses")
    by_address = [(max(row) - min(row)) / statistics.median(row) for row in found["microseconds_by_address"]]
    by_memory = [(max(row) - min(row)) / statistics.median(row) for row in found["microseconds_by_memory"]]
    assert min(by_address) > 0.07 and max(by_address) > 0.15
    assert max(by_memory) < 0.03


def test_a_verdict_takes_an_eighth_of_the_usual_way() -> None:
    found = recorded("speed/versus_inline")
    assert [row["status"] for row in found["ours"]] == ["accepted"] * 3 and found["inline"]["right"]
    whole = statistics.median(row["whole_seconds"] for row in found["ours"])
    assert found["ratio"] == pytest.approx(found["inline"]["process_seconds"] / whole)
    assert found["ratio"] > RATIO and found["faults"] == []


def test_every_form_of_export_was_judged_again_on_the_gpu() -> None:
    forms = recorded("exports")
    assert set(forms) == set(get_args(ExportForm))
    for name, row in forms.items():
        assert (row["exit_code"], row["verdict"]["status"]) == (0, "accepted"), name
    assert forms["torch-op"]["selftest"]["status"] == "passed"


def test_without_the_same_addresses_one_kernel_differed_from_worker_to_worker() -> None:
    """Why docs/decisions/0013 was made."""
    apart = recorded("speed/apart_before")
    assert all(apart[kept]["spread"]["odd"] < 0.005 for kept in ("worker", "code"))
    assert all(apart[new]["spread"]["odd"] > 0.15 for new in ("process", "outputs"))
    assert apart["two placements by hint"]["spread"]["long_rows"] > 0.5
    itself = recorded("speed/itself_before")
    assert [row["comparison"]["decision"] for row in itself["rows"]].count("slower") == 6


def test_a_kernel_that_races_itself_is_not_called_faster() -> None:
    rows = recorded("speed/itself")["rows"]
    assert len(rows) == 6 and all(row["status"] == "accepted" for row in rows)
    assert all(row["comparison"]["decision"] != "faster" for row in rows)
    assert all(0.98 < row["comparison"]["ratio"] < 1.02 for row in rows)
