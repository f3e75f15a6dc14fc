"""What warpsmith itself saw on an H200: live profiles, experiments, machine code and clocks, checked against what they
must say. Recorded by tests/h200/everything_on_gpu.py; no device is needed."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from test_cuda_profile import findings
from test_uncounted import known

from tools.clock import Allowance, Clocks, Reading
from tools.cuda_device import CudaDevice
from tools.profilers.cuda import assemble
from tools.profilers.ncu import uncounted
from tools.profilers.ncu_classify import CLASSES, classify
from tools.profilers.ncu_csv import parse_raw
from tools.profilers.ncu_metrics import read

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/golden/h200"
SECTIONS = ("zoo", "no_counters", "experiment", "listing", "clocks")
COUNTED = {
    launch.kernel.partition("(")[0]: read(launch.values)[0]
    for launch in parse_raw(gzip.decompress((GOLDEN / "zoo/zoo_ncu_raw.csv.gz").read_bytes()).decode())
}


def script(name: str) -> Any:
    """A module of tests/h200, which is no package."""
    sys.path.insert(0, str(ROOT / "tests/h200"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def recorded(section: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "live" / f"{section}.json").read_text())
    assert not found.get("faults")
    return found


@pytest.mark.parametrize("section", SECTIONS)
def test_a_record_names_chip_driver_and_date_and_no_machine(section: str) -> None:
    record = recorded(section)
    assert (record["chip"], record["driver"].count(".")) == ("NVIDIA H200", 2)
    assert record["nvcc"].startswith("nvcc 1") and record["date"].startswith("2026-")
    text = json.dumps(record)
    assert not any(private in text for private in ("GPU-", "/tmp", "/root", "/home"))


def test_the_time_of_a_verdict_is_accounted_for() -> None:
    record = json.loads((GOLDEN / "speed/speed.json").read_text())
    assert record["chip"] == "NVIDIA H200" and record["driver"] and record["date"]
    for row in record["speed"]["rows"]:
        assert row["status"] == "accepted"
        stages, parts = sum(row["stages"].values()), sum(row["parts"].values())
        assert stages <= row["whole_seconds"] < stages + 0.5
        assert row["own_seconds"] == pytest.approx(row["whole_seconds"] - row["compiler_seconds"] - parts, abs=0.01)
        assert row["own_seconds"] < 1.0
        assert all(time["samples"] > 100 for time in row["times"])
    assert record["speed"]["own_seconds"] < 1.0 and record["speed"]["whole_seconds"] < 4.0


def test_a_sweep_timed_every_trial_and_a_quick_call_every_variant() -> None:
    swept = json.loads((GOLDEN / "speed/tune.json").read_text())["tune"]
    assert swept["trials"] == swept["timed"] == 200 and swept["ratio"] > 1
    assert 0 < swept["device_busy_share"] < 1 and swept["evaluations_per_minute"] > 100
    quick = json.loads((GOLDEN / "speed/quick30.json").read_text())["quick30"]
    assert quick["timed"] == quick["variants"] == 30
    assert quick["together"] < 1.1 * (quick["builds"] + quick["timings"])


def test_two_judges_told_the_same_times() -> None:
    one, other = (
        json.loads((GOLDEN / f"speed/{name}.json").read_text())["speed"]["rows"] for name in ("speed_slower", "speed")
    )
    for first, second in zip(one, other, strict=True):
        for a, b in zip(first["times"], second["times"], strict=True):
            assert a["workload"] == b["workload"]
            assert a["seconds"] == pytest.approx(b["seconds"], rel=0.025)


def test_every_kernel_of_the_zoo_was_profiled_live_and_called_what_its_comment_says() -> None:
    rows, known = recorded("zoo")["zoo"], script("zoo_on_gpu").KNOWN
    assert list(rows) == [each.name for each in known]
    for each in known:
        row = rows[each.name]
        assert (row["comment"], row["bottleneck"], row["cause"]) == (each.comment, each.bottleneck, each.cause)
        unsampled = any("sampled no line" in missing for missing in row["missing"])
        assert row["evidence"] and bool(row["hot_lines"]) != unsampled, each.name
    assert sum(bool(row["hot_lines"]) for row in rows.values()) >= len(rows) - 1, "1.6 us may pass without a sample"


def test_rules_of_the_profiler_were_kept_with_what_they_promise() -> None:
    """Gains of the whole kernel before those of a part, the largest first; a part's may be all of that part's time."""
    for name, row in recorded("zoo")["zoo"].items():
        gains = [(rule["scope"] != "global", -(rule["speedup"] or 0.0)) for rule in row["rules"]]
        assert gains == sorted(gains) and all(-1 <= gain <= 0 for _, gain in gains), name
        assert all(rule["scope"] in ("global", "local") for rule in row["rules"] if rule["speedup"]), name
    assert any(rule["speedup"] for row in recorded("zoo")["zoo"].values() for rule in row["rules"])


def test_the_script_writes_what_is_kept() -> None:
    """A row as it makes one of a profile, and the record's: the same fields."""
    profile = assemble(known(), findings(), ["no_such__metric.sum"])
    made = {"comment", "seconds"} | script("uncounted").told(profile).keys()
    assert all(row.keys() == made for row in recorded("zoo")["zoo"].values())
    without = script("uncounted").told(assemble(known(), uncounted("no_profiler")))
    assert made - without.keys() == {"comment", "seconds", "cause", "unit", "stalls", "hot_lines", "rules"}


def test_a_profile_without_counters_told_what_is_known_without_them() -> None:
    rows, asked = recorded("no_counters")["no_counters"], script("uncounted")
    assert rows.keys() == asked.REASONS.keys()
    for reason, row in rows.items():
        assert row["reason"] == reason and row["missing"][0] == f"hardware counters: {row['message']}"
        said = " | ".join(row["evidence"])
        assert [what for what, words in asked.SAYS.items() if words not in said] == []
        assert row["figures"] and all(name.startswith("sass_") for name in row["figures"])


@pytest.mark.parametrize("kernel", COUNTED)
def test_live_figures_lead_to_the_same_class_as_the_recorded_pages(kernel: str) -> None:
    """Another run of the profiler, in the sandbox and on the kernel alone: what it counted is classified afresh."""
    row = recorded("zoo")["zoo"][kernel]
    live = {name: value for name, value in row["figures"].items() if name in COUNTED[kernel]}
    assert len(live) > 25
    reading = classify(COUNTED[kernel] | live)
    assert reading is not None
    assert reading.cause == row["cause"] and row["bottleneck"] in (CLASSES[reading.cause], "overhead")
    for name in ("registers", "block_size", "theoretical_occupancy"):  # arrays are smaller than zoo.cu's own
        assert live[name] == pytest.approx(COUNTED[kernel][name], abs=0.04), name


def test_a_metric_that_the_chip_lacks_was_dropped_and_listed() -> None:
    row = recorded("zoo")["zoo"]["coalesced_copy"]
    assert row["missing"] == ["no_such__metric.sum: this chip does not have it, or not under this name"]
    assert row["figures"]["dram__bytes.sum"] == pytest.approx(
        row["figures"]["dram_read"] + row["figures"]["dram_written"], rel=0.01
    )


def test_programs_answered_or_were_ended_and_the_next_verdict_was_right() -> None:
    rows, asked = recorded("experiment")["experiment"], script("gpu_programs").PROGRAMS
    assert list(rows) == list(asked)
    for name, row in rows.items():
        assert row["status"] in asked[name].status and asked[name].says in row["stdout"], name
        assert row["then"] == "accepted", name
        assert row["free_bytes"]["after"] >= row["free_bytes"]["before"] - (1 << 20), name
    assert rows["endless_kernel"]["seconds"] < asked["endless_kernel"].seconds + 1


def test_machine_code_was_listed_and_counted_for_every_example() -> None:
    rows = recorded("listing")["listing"]
    assert set(rows) == {path.parent.name for path in ROOT.glob("examples/*/kernel.cu")}
    for name, row in rows.items():
        assert row["sass"]["lines"] > 100 and row["ptx"]["lines"] > 100, name
        assert all("LDG" in line for line in row["sass"]["first"]) and row["sass"]["loads"] >= len(row["sass"]["first"])
        assert all("ld.global" in line for line in row["ptx"]["first"])
        assert row["counted"]["all"] <= row["sass"]["lines"]
    assert rows["histogram"]["counted"]["atomics"] > 0
    assert rows["matmul"]["counted"]["shared_accesses"] > 0


def test_events_agree_with_the_host_s_clock() -> None:
    record = recorded("clocks")["clocks"]
    shares = {row["wanted"]: abs(row["host"] / row["event"] - 1) for row in record["queued"]}
    assert min(shares) == 2e-05 and max(shares) == 5e-03
    assert all(share < 0.03 for share in shares.values())
    readings = tuple(Reading(*pair) for pair in record["judge"]["readings"])
    clocks = Clocks(readings, tuple(record["judge"]["round_trips"]), CudaDevice.allowance)
    assert clocks.disagreement() is None
    speed = record["judge"]["sm_megahertz"]
    assert 300 < speed["lowest"] <= speed["median"] <= speed["highest"] < 3000
    late = Clocks(tuple(Reading(r.inner, r.outer + 1e-3) for r in readings), clocks.round_trips, Allowance(coarse=True))
    assert late.disagreement() is not None
