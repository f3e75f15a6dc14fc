"""What an H200 really did: with the examples' CUDA kernels, as recorded by tests/h200/examples_on_gpu.py, and with
wrong and cheating kernels and their honest twins, as recorded by tests/h200/judge_on_gpu.py."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tools.clock import Allowance, Clocks, Reading, Rows, calls_in_a_row
from tools.records import Accepted, Rejected
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


# ------------------------------------------------------------------------------------------------------------- fixtures

KERNELS, GOLDEN = ROOT / "tests/kernels", ROOT / "tests/golden/h200/judge"
MANIFESTS: dict[str, dict[str, dict[str, Any]]] = {
    "fixtures": tomllib.loads((KERNELS / "cuda.toml").read_text()),
    "torch_fixtures": {
        name: row
        for name, row in tomllib.loads((KERNELS / "torch.toml").read_text()).items()
        if row.get("target") != "cpu"
    },
}
ROWS = [(section, name) for section, rows in MANIFESTS.items() for name in rows]
VERDICT: TypeAdapter[Accepted | Rejected] = TypeAdapter(Accepted | Rejected)
NO_FASTER = 1.25
"""How much faster than its honest twin a trick without effect may have been timed."""


NOT_RECORDED: dict[str, list[str]] = json.loads((KERNELS / "not_recorded.json").read_text())
"""Rows that no GPU has judged yet, and faults without what came after them. Every other one has to be there."""


def recorded_rows(section: str) -> dict[str, Any]:
    record = json.loads((GOLDEN / f"{section}.json").read_text())
    assert "H200" in record["chip"] and record["driver"] and record["date"].startswith("20")
    rows: dict[str, Any] = record[section]
    return rows


def verdict_of(section: str, name: str) -> Accepted | Rejected:
    if name in NOT_RECORDED[section]:
        pytest.skip(f"{name} was not judged on an H200 yet")
    return VERDICT.validate_python(recorded_rows(section)[name]["verdict"])


@pytest.mark.parametrize("section", MANIFESTS)
def test_every_row_is_recorded_or_named_as_not_recorded(section: str) -> None:
    recorded, waiting = set(recorded_rows(section)), set(NOT_RECORDED[section])
    assert recorded | waiting == set(MANIFESTS[section])
    assert recorded & waiting == set()
    assert len(waiting) == len(NOT_RECORDED[section])


@pytest.mark.parametrize(("section", "name"), ROWS)
def test_every_fixture_got_the_verdict_that_it_deserves_on_the_gpu(section: str, name: str) -> None:
    wanted, verdict = MANIFESTS[section][name], verdict_of(section, name)
    if "stage" not in wanted:
        assert isinstance(verdict, Accepted)
        return
    assert isinstance(verdict, Rejected)
    assert verdict.stage in ([wanted["stage"]] if isinstance(wanted["stage"], str) else wanted["stage"])
    assert verdict.reason in wanted["reasons"]
    assert isinstance(verdict_of(section, wanted["twin"]), Accepted)


@pytest.mark.parametrize(("section", "name"), [row for row in ROWS if MANIFESTS[row[0]][row[1]].get("harmless")])
def test_a_trick_without_effect_gained_nothing_on_the_gpu(section: str, name: str) -> None:
    trick, honest = verdict_of(section, name), verdict_of(section, MANIFESTS[section][name]["twin"])
    assert isinstance(trick, Accepted) and isinstance(honest, Accepted)
    for mine, theirs in zip(trick.timings, honest.timings, strict=True):
        assert theirs.seconds < NO_FASTER * mine.seconds


@pytest.mark.parametrize("section", MANIFESTS)
def test_no_cheat_was_believed_on_the_gpu(section: str) -> None:
    rows = recorded_rows(section)
    cheats = [name for name, row in MANIFESTS[section].items() if "stage" in row and name in rows]
    assert len(cheats) > len(rows) / 3
    assert [name for name in cheats if rows[name]["verdict"]["status"] == "accepted"] == []


def test_every_native_fixture_is_listed_with_an_honest_twin() -> None:
    rows = MANIFESTS["fixtures"]
    assert {path.name for path in KERNELS.glob("cuda_*")} == {row.get("kernel", name) for name, row in rows.items()}
    for name, row in rows.items():
        if "stage" in row:
            assert "stage" not in rows[row["twin"]] and not rows[row["twin"]].get("harmless"), name


def test_every_native_fixture_has_its_place_in_the_table_of_cheats() -> None:
    text = (ROOT / "docs/cheating.md").read_text()
    names = {name.removeprefix("cuda_") for name in MANIFESTS["fixtures"]}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent / "golden/h200").rglob("*.json")), ids=lambda path: path.name
)
def test_no_record_says_where_it_was_made(path: Path) -> None:
    """A traceback may name the system's own files."""
    text = path.read_text()
    assert re.findall(r'File \\?"(/(?!usr/|opt/)[^"\\]*)', text) == []
    assert not any(private in text for private in ("/home/", "/.cache/", "/root/.", "/tmp/warpsmith-"))


FAULTS = [name for name, row in MANIFESTS["fixtures"].items() if row.get("fault")]


def row_of_fault(name: str) -> dict[str, Any]:
    if name in NOT_RECORDED["fixtures"] + NOT_RECORDED["aftermath"]:
        pytest.skip(f"what came after {name} was not recorded on an H200 yet")
    row: dict[str, Any] = recorded_rows("fixtures")[name]
    return row


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_left_no_device_memory_behind(name: str) -> None:
    free = row_of_fault(name)["free_bytes"]
    assert free["after"] >= free["before"] - (1 << 20)


@pytest.mark.parametrize("name", FAULTS)
def test_after_a_fault_the_next_verdict_was_right_and_the_worker_beside_it_went_on(name: str) -> None:
    row = row_of_fault(name)
    assert row["next"]["status"] == "accepted" and row["next"]["worst_error"] <= 1
    assert row["right_calls_beside"] > 0


def test_only_faults_wait_for_what_came_after_them() -> None:
    waiting = NOT_RECORDED["aftermath"]
    assert set(waiting) <= set(FAULTS) - set(NOT_RECORDED["fixtures"])
    for name in set(FAULTS) - set(waiting) - set(NOT_RECORDED["fixtures"]):
        assert {"free_bytes", "next", "right_calls_beside"} <= recorded_rows("fixtures")[name].keys()


def test_settings_that_cannot_be_launched_were_refused_on_the_gpu_and_most_before_they_were_built() -> None:
    path = GOLDEN / "invalid.json"
    if not path.is_file() and NOT_RECORDED["invalid"]:
        pytest.skip("the sweep was not recorded on an H200 yet")
    record = json.loads(path.read_text())
    assert "H200" in record["chip"] and NOT_RECORDED["invalid"] == []
    found = record["invalid"]
    assert found["exhausted"] and len(found["rows"]) == found["points"] == 9
    for row in found["rows"]:
        shared, rows = (row["settings"]["defines"][name] for name in ("SHARED", "ROWS"))
        assert (row["seconds"] is not None) == (shared == "0" and rows != "64"), row
        assert row["foreseen"] == (shared != "0")
    assert found["best"]["defines"]["SHARED"] == "0"


INNER = 15e-6


@pytest.mark.parametrize(
    ("held", "free", "words"),
    [
        (12e-6, 20e-6, None),
        (18e-6, 90e-6, None),
        (34e-6, 40e-6, "in a row take 34.0 us each by"),
        (14e-6, 160e-6, "in a row take 160.0 us each, launching included"),
    ],
)
def test_a_row_of_calls_shows_work_that_events_do_not_see(held: float, free: float, words: str | None) -> None:
    why = Rows(200, held, free).disagreement(INNER, Allowance(coarse=True, slack=250e-6))
    assert why is None if words is None else words in (why or "")


@pytest.mark.parametrize(("inner", "calls"), [(5e-6, 200), (100e-6, 50), (2e-3, 0), (0.0, 200)])
def test_rows_are_as_long_as_they_have_to_be(inner: float, calls: int) -> None:
    assert calls_in_a_row(inner) == calls


@pytest.mark.parametrize(
    ("worked", "lies"), [((9e-4, 9e-4, 9e-4), True), ((9e-4, 1.2e-4, 9e-4), False), ((9e-4, None, 9e-4), False)]
)
def test_a_thread_that_worked_for_longer_than_its_call_took_is_no_neighbours_doing(
    worked: tuple[float | None, ...], lies: bool
) -> None:
    readings = tuple(Reading(1e-4, 2e-3, each) for each in worked)
    assert Clocks(readings, (20e-6,)).worked_longer is lies
    assert not Clocks((), (20e-6,)).worked_longer
