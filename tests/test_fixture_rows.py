"""How fixtures are judged on a GPU and kept: a judge stands in, with verdicts that an H200 gave. It needs no device."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter
from toolkit import needs_nvcc

from tools.contract import task_header
from tools.errors import InfrastructureError
from tools.records import Accepted, Kernel, Rejected
from tools.reference import load_reference
from tools.targets.cuda import CudaTarget
from tools.targets.foresee import foreseen_faults
from tools.task import TaskSource, read_task

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS / "h200"))

import aftermath  # noqa: E402
import fixture_rows  # noqa: E402
import invalid_settings  # noqa: E402
import judge_on_gpu  # noqa: E402
import keep_fixtures  # noqa: E402

RECORD: dict[str, Any] = json.loads((TESTS / "golden/h200/judge/fixtures.json").read_text())
VERDICT: TypeAdapter[Accepted | Rejected] = TypeAdapter(Accepted | Rejected)
BROKEN = "cuda_misaligned"


class RecordedJudge:
    """Says what was said on an H200; it breaks over one kernel, as a machine might."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.device = SimpleNamespace(dismiss=lambda: None)
        self.evaluated: list[str] = []

    def build_variant(self, kernel: Kernel, variant: str) -> None:
        del kernel, variant

    def evaluate(self, kernel: Kernel) -> Accepted | Rejected:
        rows = fixture_rows.native_rows()
        alike = [name for name in RECORD["fixtures"] if rows[name].get("policy", "strict") == self.policy]
        name = next(name for name in alike if fixture_rows.native_kernel(name).id == kernel.id)
        self.evaluated.append(name)
        if name == BROKEN:
            raise InfrastructureError(f"no device, says {fixture_rows.ROOT}/nowhere")
        return VERDICT.validate_python(RECORD["fixtures"][name]["verdict"])


class Calls:
    """A worker beside, which was called once more whenever it is asked."""

    made = 0

    def __init__(self, *_: object) -> None:
        type(self).made += 1
        self._calls = 20

    def right_calls(self) -> int:
        self._calls += 1
        return self._calls

    def close(self) -> None:
        pass


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[RecordedJudge]:
    """Those that were opened."""
    opened: list[RecordedJudge] = []

    @contextmanager
    def open_task(source: TaskSource, target: str) -> Iterator[RecordedJudge]:
        assert target == "cuda"
        if source.libraries:
            raise InfrastructureError("the task allows cudnn, which this machine lacks")
        opened.append(RecordedJudge(source.policy))
        yield opened[-1]

    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setattr(judge_on_gpu, "open_task", open_task)
    monkeypatch.setattr(judge_on_gpu, "machine", lambda: {name: RECORD[name] for name in ("chip", "driver", "date")})
    monkeypatch.setattr(aftermath, "open_task", open_task)
    monkeypatch.setattr(aftermath, "Bystander", Calls)
    monkeypatch.setattr(aftermath, "free_bytes", lambda: 140 << 30)
    return opened


def test_one_row_that_cannot_be_judged_costs_no_other(
    judges: list[RecordedJudge], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ONLY", f"{BROKEN},cuda_exits,cuda_tf32*,cuda_vendor_softmax")
    found = judge_on_gpu.judged_fixtures("fixtures", fixture_rows.native_rows(), fixture_rows.native_kernel)
    assert len(judges) == 3, "softmax, and the product under two policies"
    assert {name for name, row in found.items() if row["as_expected"]} == {
        "cuda_exits",
        "cuda_tf32",
        "cuda_tf32_by_policy",
    }
    assert found[BROKEN]["failed"] == "InfrastructureError: no device, says nowhere"
    assert "lacks" in found["cuda_vendor_softmax"]["failed"]
    written = json.loads((tmp_path / "out/judge_fixtures.json").read_text())
    assert written["fixtures"] == found


def test_a_fault_is_followed_by_an_honest_verdict_and_a_broken_judge_by_a_new_one(
    judges: list[RecordedJudge], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLY", f"cuda_illegal_address,{BROKEN},cuda_exits,cuda_honest")
    found = judge_on_gpu.beside()
    assert list(found) == ["cuda_illegal_address", BROKEN, "cuda_exits"]
    assert [judge.evaluated for judge in judges] == [
        ["cuda_honest", "cuda_illegal_address", "cuda_honest", BROKEN],
        ["cuda_honest", "cuda_exits", "cuda_honest"],
    ]
    assert found[BROKEN]["as_expected"] is False
    row = found["cuda_exits"]
    assert row["as_expected"] and row["next"]["status"] == "accepted" and row["right_calls_beside"] == 1
    assert row["free_bytes"] == {"before": 140 << 30, "after": 140 << 30}


@pytest.mark.parametrize("lost", ["memory", "calls"])
def test_a_fault_that_leaves_something_behind_is_not_as_expected(
    judges: list[RecordedJudge], monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.setenv("ONLY", "cuda_exits")
    if lost == "memory":
        left = iter([140 << 30, *3 * [139 << 30]])
        monkeypatch.setattr(aftermath, "PATIENCE", 0.0)
        monkeypatch.setattr(aftermath, "free_bytes", lambda: next(left))
    else:
        monkeypatch.setattr(Calls, "right_calls", lambda _: 20)
    assert not judge_on_gpu.beside()["cuda_exits"]["as_expected"]
    assert judges


def test_faults_are_judged_alone_and_rows_of_other_tasks_apart() -> None:
    rows = {name: row for name, row in fixture_rows.native_rows().items() if not row.get("fault")}
    parts = judge_on_gpu.shares(rows, 4)
    assert sorted(name for part in parts for name in part) == sorted(rows)
    assert len(parts) == 5 and {"cuda_tf32", "cuda_vendor", "cuda_vendor_softmax"} <= set(parts[0])


# ------------------------------------------------------------------------------------------------------------- keeping


def written(folder: Path, section: str, rows: dict[str, Any], **machine: str) -> Path:
    folder.mkdir(parents=True)
    record = {"chip": "NVIDIA H200", "driver": "1", "date": "2026-12-01", **machine, section: rows}
    (folder / f"judge_{section}.json").write_text(json.dumps(record))
    return folder


def test_newer_rows_replace_older_ones_and_failed_ones_are_left_out(tmp_path: Path) -> None:
    verdict = {"verdict": {"status": "accepted"}}
    first = written(tmp_path / "first", "fixtures", {"a": verdict, "b": verdict})
    assert keep_fixtures.keep("fixtures", [first], tmp_path) == ["a", "b"]
    part = written(tmp_path / "new/part", "fixtures", {"b": {"failed": "no verdict"}, "c": {**verdict, "seconds": 1}})
    written(tmp_path / "new/beside", "beside", {"d": verdict})
    written(tmp_path / "new/broken", "beside", {"failed": "Traceback: no verdict"})
    assert keep_fixtures.keep("fixtures", [part.parent], tmp_path) == ["c", "d"]
    kept = json.loads((tmp_path / "fixtures.json").read_text())
    assert list(kept["fixtures"]) == ["a", "b", "c", "d"] and kept["fixtures"]["c"]["date"] == "2026-12-01"


def test_rows_of_two_machines_make_no_record_unless_all_are_new(tmp_path: Path) -> None:
    verdict = {"verdict": {"status": "accepted"}}
    keep_fixtures.keep("fixtures", [written(tmp_path / "1", "fixtures", {"a": verdict, "b": verdict})], tmp_path)
    other = written(tmp_path / "2", "fixtures", {"a": verdict}, driver="2")
    with pytest.raises(SystemExit, match="another one than those that stay"):
        keep_fixtures.keep("fixtures", [other], tmp_path)
    whole = written(tmp_path / "3", "fixtures", {"a": verdict, "b": verdict}, driver="2")
    assert keep_fixtures.keep("fixtures", [whole], tmp_path) == ["a", "b"]
    assert json.loads((tmp_path / "fixtures.json").read_text())["driver"] == "2"


@pytest.mark.parametrize("there", [True, False], ids=["an empty folder", "no folder"])
def test_folders_without_a_record_are_told_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], there: bool
) -> None:
    folder = tmp_path if there else tmp_path / "nowhere"
    monkeypatch.setattr(sys, "argv", ["keep_fixtures.py", str(folder)])
    monkeypatch.setattr(keep_fixtures, "strike", lambda *_: pytest.fail("nothing was judged"))
    with pytest.raises(SystemExit, match=f"There is no record of judge_on_gpu.py under {folder}; "):
        keep_fixtures.main()
    assert capsys.readouterr().out == ""


def test_what_was_judged_leaves_the_list_of_what_was_not(tmp_path: Path) -> None:
    place = tmp_path / "list.json"
    place.write_text(json.dumps({"fixtures": ["a", "b"], "invalid": ["invalid"]}))
    keep_fixtures.strike("fixtures", ["b", "c"], place)
    assert json.loads(place.read_text()) == {"fixtures": ["a"], "invalid": ["invalid"]}


# ------------------------------------------------------------------------------------------------------------ settings


@needs_nvcc
def test_of_the_settings_that_cannot_be_launched_some_are_foreseen_and_the_rest_builds() -> None:
    source = read_task(invalid_settings.SOFTMAX)
    reference = load_reference(source)
    header = task_header(source.name, [reference.signature(index) for index in range(len(source.workloads))])
    for shared in ("0", "65536", "307200"):
        kernel = invalid_settings.KERNEL.model_copy(update={"defines": {"SHARED": shared, "ROWS": "64"}})
        faults = foreseen_faults(kernel, header, "sm_90a")
        assert bool(faults) == (shared != "0")
        assert all(invalid_settings.FORESEEN in fault.message for fault in faults)
        if shared == "0":
            build = CudaTarget("sm_90a").compile_kernel(kernel, header)
            assert build.library is not None, build.report.output
