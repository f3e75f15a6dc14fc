"""The script that records what must be seen on a GPU, run to its end with stand-ins for the judge and the device: what
it writes has the form of what is kept, and one row that fails costs no other."""

# ruff: noqa: ARG002, ARG005 (stand-ins take what the real ones do)

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from test_cuda_canary import honest, yardstick
from test_cuda_profile import findings
from test_uncounted import known

from tools.clock import Clocks, Reading
from tools.cuda_device import CudaDevice
from tools.nvml import Clock
from tools.profilers.cuda import assemble
from tools.profilers.ncu import find_ncu, uncounted

sys.path.insert(0, str(Path(__file__).parent / "h200"))

import everything_on_gpu as script

LIVE = Path(__file__).parent / "golden/h200/live"
READING = Reading(1e-5, 3e-4, device=Clock(1980, 0))


class Readings:
    """A runner whose calls all read alike."""

    def call(self, content: object) -> None: ...

    def clocks(self, workload: int) -> Clocks:
        return Clocks((READING,) * 3, (2.9e-4,), CudaDevice.allowance)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stands in for every judge that the script opens, and for what it asks of the device."""
    judge = SimpleNamespace(
        evaluate=lambda kernel: SimpleNamespace(status="accepted"),
        lock=contextlib.nullcontext,
        build_variant=lambda kernel, variant: None,
        runner=lambda build: contextlib.nullcontext(Readings()),
        content=SimpleNamespace(fresh=lambda workload: None),
        _yardstick=yardstick(honest)[0],
    )
    driver = ModuleType("pycuda.driver")
    driver.mem_get_info = lambda: (140 << 30, 141 << 30)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pycuda", ModuleType("pycuda"))
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    sys.modules["pycuda"].driver = driver  # type: ignore[attr-defined]
    monkeypatch.setattr(script, "open_task", lambda source, target: contextlib.nullcontext(judge))
    return judge


def written(folder: Path, section: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Any]]:
    """Exit status and record of one section."""
    monkeypatch.setenv("OUT", str(folder))
    monkeypatch.setattr("recording.require_gpu", lambda *modules: None)
    status = script.main([section])
    record: dict[str, Any] = json.loads((folder / f"{section}.json").read_text())
    assert {"chip", "driver", "nvcc", "date", "seconds", "faults", section} == record.keys()
    return status, record


def kept(section: str) -> Any:
    return json.loads((LIVE / f"{section}.json").read_text())[section]


def test_profiles_are_written_as_they_are_kept(judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def profile(judge: Any, kernel: Any, workload: Any, metrics: Any) -> Any:
        if "divergent<<<" in kernel.files["kernel.cu"]:
            raise RuntimeError("the profiler fell over")
        return assemble(known(), findings(), metrics)

    monkeypatch.setattr(script, "profile_kernel", profile)
    status, record = written(tmp_path, "zoo", monkeypatch)
    rows = record["zoo"]
    assert status == 1 and list(rows) == list(kept("zoo"))
    assert rows.pop("divergent") == {"failed": "RuntimeError: the profiler fell over"}
    assert all(row.keys() == kept("zoo")[name].keys() for name, row in rows.items())
    assert set(record["faults"]) == {*rows, "divergent: RuntimeError: the profiler fell over"} - {"low_occupancy"}


def test_profiles_without_counters_are_written_with_what_they_lack(
    judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def profile(judge: Any, kernel: Any) -> Any:
        reason = "no_profiler" if find_ncu() is None else "no_permission"
        return assemble(known(code=None) if reason == "no_permission" else known(), uncounted(reason))  # type: ignore[arg-type]

    monkeypatch.setattr(script, "profile_kernel", profile)
    status, record = written(tmp_path, "no_counters", monkeypatch)
    assert status == 1 and list(record["no_counters"]) == ["no_profiler", "no_permission"]
    assert record["faults"] == ["no_permission: it lacks machine code"]
    assert [row["reason"] for row in record["no_counters"].values()] == ["no_profiler", "no_permission"]


def test_programs_are_written_as_they_are_kept(judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(judge: Any, program: Any) -> Any:
        asked = next(a for a in script.gpu_programs.PROGRAMS.values() if a.text == program.files["main.cu"])
        return SimpleNamespace(status=asked.status[0], exit_code=0, stdout=f"{asked.says} ", stderr="")

    monkeypatch.setattr(script, "run_experiment", ran)
    status, record = written(tmp_path, "experiment", monkeypatch)
    assert (status, record["faults"]) == (0, [])
    assert {name: row.keys() for name, row in record["experiment"].items()} == {
        name: row.keys() for name, row in kept("experiment").items()
    }
    judge.evaluate = lambda kernel: SimpleNamespace(status="rejected")
    status, record = written(tmp_path, "experiment", monkeypatch)
    assert status == 1 and record["faults"] == list(record["experiment"])


def test_clocks_are_written_as_they_are_kept(judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps({"wanted": each, "event": each, "host": each * 1.001}) for each in (2e-5, 1e-4, 5e-3)]
    said = SimpleNamespace(stdout="\n".join(lines), stderr="", status="ended")
    monkeypatch.setattr(script, "run_experiment", lambda judge, program: said)
    status, record = written(tmp_path, "clocks", monkeypatch)
    found = record["clocks"]
    assert (status, record["faults"]) == (0, [])
    assert found.keys() >= kept("clocks").keys() and found["judge"].keys() >= kept("clocks")["judge"].keys()
    assert found["queued"][0].keys() == kept("clocks")["queued"][0].keys()
    assert found["judge"]["sm_megahertz"] == {"lowest": 1980, "median": 1980, "highest": 1980}
    assert found["canary"]["refused"] is None
    assert found["short_canary"]["refused"] == "a call of 3 ms reads 2.850 ms"
    assert found["long_canary"]["refused"] == "a call of 3 ms reads 4.500 ms"
    assert Path(tmp_path / "clocks.json").read_text().endswith("}\n")


def test_a_section_that_cannot_begin_leaves_a_record_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: object, target: str) -> Any:
        raise OSError("no device")

    monkeypatch.setattr(script, "open_task", fail)
    status, record = written(tmp_path, "zoo", monkeypatch)
    assert status == 1 and (record["zoo"], record["faults"]) == ({}, ["OSError: no device"])
