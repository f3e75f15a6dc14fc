"""What an H200 made of KernelBench files, as tests/h200/kernelbench_on_gpu.py recorded it, and the script itself."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.contract import Signature, Tensor
from tools.facts import WorkloadFacts
from tools.hardware import Hardware, arithmetic_of
from tools.records import WorkloadTiming

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/h200"))

import kernelbench_baselines as alone  # noqa: E402
import kernelbench_on_gpu as script  # noqa: E402
from kernelbench_files import FILES as LISTED  # noqa: E402
from wrong_kernels import wrong_kernels  # noqa: E402

RECORD: dict[str, Any] = json.loads((ROOT / "tests/golden/h200/judge/kernelbench.json").read_text())
ROWS: dict[str, dict[str, Any]] = {row["file"]: row for row in RECORD["files"]}
FILES = {file.path: file for file in LISTED}
JUDGED = [path for path, row in ROWS.items() if "verdicts" in row]


def test_the_record_names_its_chip_driver_date_and_the_checkout() -> None:
    assert "H200" in RECORD["chip"] and RECORD["driver"] and RECORD["date"].startswith("20") and RECORD["torch"]
    assert re.fullmatch("[0-9a-f]{40}", RECORD["commit"])
    assert ROWS.keys() <= FILES.keys()
    assert all(re.fullmatch("[0-9a-f]{64}", row["sha256"]) for row in ROWS.values())


@pytest.mark.parametrize("path", ROWS)
def test_every_verdict_is_the_one_that_the_kernel_deserves(path: str) -> None:
    row = ROWS[path]
    assert row["as_expected"]
    if FILES[path].refused:
        assert row["refused"]["fault"] == "degenerate" and FILES[path].refused in row["refused"]["message"]
        return
    assert row["reference_on_gpu"]
    assert len(row["verdicts"]) >= 2 and "zeros" in row["verdicts"]
    assert ("right" in row["verdicts"]) == bool(FILES[path].kernel)
    assert all(script.expected(name, verdict) for name, verdict in row["verdicts"].items())


@pytest.mark.parametrize("path", JUDGED)
def test_baselines_have_names_and_the_fastest_counts(path: str) -> None:
    for told in ROWS[path]["facts"]["workloads"]:
        workload = WorkloadFacts.model_validate(told)
        names = {each.name for each in workload.baselines}
        assert names == set(FILES[path].variants)
        assert workload.baseline_seconds == min(each.seconds for each in workload.baselines)
        assert all(each.interval.low <= each.seconds <= each.interval.high for each in workload.baselines)
        assert workload.limit_seconds < workload.baseline_seconds


@pytest.mark.parametrize("path", [path for path in JUDGED if "right" in ROWS[path]["verdicts"]])
def test_a_right_kernel_s_times_are_possible_and_held_against_every_baseline(path: str) -> None:
    verdict = ROWS[path]["verdicts"]["right"]
    for told in verdict["timings"]:
        timing = WorkloadTiming.model_validate(told)
        assert timing.limit_seconds < timing.seconds
        assert timing.compiled_seconds is not None
        assert timing.baseline_seconds == min(timing.baselines.values())
    assert verdict["worst_error"] <= 1
    assert verdict["speedup_over_eager"] > 0 and verdict["speedup_over_compile"] > 0


def test_the_measured_peaks_are_those_of_the_chip() -> None:
    """Dense rates of the maker's data sheet for the boost clock: 989 (bf16, fp16), 495 (tf32), 67 (fp32), in 1e12/s."""
    peaks = Hardware.model_validate({**RECORD["peaks"], "compiler": ""})
    shares = {name: peaks.peak_flops[name] / (top * 1e12) for name, top in _SHEET.items()}
    assert all(0.85 < share <= 1.03 for share in shares.values()), shares
    assert not peaks.matrix_units
    rising = [peaks.peak(arithmetic_of(["float32"], policy)) or 0 for policy in ("strict", "tf32", "mixed")]
    assert rising == sorted(rising) and rising[2] > 12 * rising[0]


_SHEET = {"float32": 67, "tf32": 495, "bfloat16": 989, "float16": 989}


def test_the_page_shows_every_recorded_file_and_names_those_that_are_missing() -> None:
    page = (ROOT / "docs/gpu.md").read_text()
    for line in script.table(RECORD):
        assert line in page
    for path in FILES.keys() - ROWS.keys():
        assert f"`{path}`" in page, f"{path} was not recorded, which docs/gpu.md should say"


def test_the_files_are_of_the_kinds_that_matter() -> None:
    counts = [sum(path.startswith(f"level{level}/") for path in FILES) for level in (1, 2, 3)]
    assert counts[0] >= 12 and counts[1] >= 6 and counts[2] >= 2
    kinds = ("matrix_mult", "ReLU", "Softmax", "Norm", "reduction", "conv", "cumsum")
    assert all(any(kind in path for path in FILES if path.startswith("level1/")) for kind in kinds)
    for file in FILES.values():
        if file.kernel:
            assert '#include "task.h"' in (script.KERNELS / f"{file.kernel}.cu").read_text()


def test_wrong_kernels_fill_every_output_and_copy_only_what_fits() -> None:
    x = Tensor(name="x", dtype="float32", shape=(4, 100))
    scalar = Tensor(name="best", dtype="int64", shape=())
    wide = Tensor(name="out", dtype="float32", shape=(3, 100))
    made = dict(wrong_kernels(Signature(inputs=(x,), outputs=(wide, scalar))))
    assert list(made) == ["zeros", "a constant", "a copy"]
    text = made["a copy"].files["kernel.cu"]
    assert "fill<float><<<2, 256, 0, stream>>>(args.out, args.x, static_cast<float>(0), 300);" in text
    assert "fill<int64_t><<<1, 256, 0, stream>>>(args.best, nullptr, static_cast<int64_t>(0), 1);" in text
    large = Tensor(name="out", dtype="float32", shape=(5, 100))
    assert list(dict(wrong_kernels(Signature(inputs=(x,), outputs=(large,))))) == ["zeros", "a constant"]


# ------------------------------------------------------------------------------------------------------ baselines alone

GEMM = """import torch

N = 2048


class Model(torch.nn.Module):
    def forward(self, A, B):
        return torch.matmul(A, B)


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return []
"""


def section_record(section: str) -> dict[str, Any]:
    path = ROOT / f"tests/golden/h200/judge/kernelbench_{section}.json"
    record: dict[str, Any] = json.loads(path.read_text())
    assert "H200" in record["chip"] and record["driver"] and record["date"].startswith("20") and record["torch"]
    assert record["commit"] == RECORD["commit"]
    return record


def test_a_section_times_each_policy_by_name_and_keeps_what_failed(tmp_path: Path) -> None:
    """On this machine's processors, by the process that the product uses."""
    pytest.importorskip("torch")
    path = tmp_path / alone.PRODUCT
    path.parent.mkdir()
    path.write_text(GEMM)
    found = alone.policies(tmp_path, "cpu", {"N": 16}, ("eager", "nonsense"))
    assert list(found["policies"]) == ["strict", "tf32", "mixed"] and found["overrides"] == {"N": 16}
    for row in found["policies"].values():
        assert row["eager"]["seconds"] > 0 and row["eager"]["interval"]["low"] > 0
        assert "KeyError" in row["nonsense"]["failed"]
    lines = alone.tables(found)
    assert len(lines) == 2 + 3 and lines[2].startswith("| `strict` | ") and lines[2].count("|") == 5


def test_a_product_is_timed_under_the_task_s_own_policy_on_the_gpu() -> None:
    """Against the measured peaks: 2 N^3 operations can't be faster than what the policy allows, and TF32 shows."""
    record = section_record("policies")
    assert list(record["policies"]) == ["strict", "tf32", "mixed"] and record["overrides"] == {}
    peaks = Hardware.model_validate({**RECORD["peaks"], "compiler": ""})
    best = {}
    for policy, row in record["policies"].items():
        assert {"eager", "compile", "compile-max-autotune"} == row.keys()
        best[policy] = min(each["seconds"] for each in row.values() if "seconds" in each)
        assert best[policy] > 2 * 2048**3 / ((peaks.peak(arithmetic_of(["float32"], policy)) or 0) * 1.03)
        assert row["eager"]["interval"]["low"] <= row["eager"]["seconds"] <= row["eager"]["interval"]["high"]
    assert best["tf32"] < best["strict"] / 2 and best["mixed"] < best["strict"] / 2


def test_max_autotune_was_tried_on_every_file_that_is_judged_without_it() -> None:
    record = section_record("tuned")
    assert set(record["tuned"]) == {file.path for file in LISTED if len(file.variants) < 3}
    for row in record["tuned"].values():
        assert {"eager", "compile", "compile-max-autotune"} == row.keys()
        assert "seconds" in row["eager"]
        assert all("seconds" in each or each["failed"] for each in row.values())
    page = (ROOT / "docs/gpu.md").read_text()
    assert all(line in page for line in alone.tables(record))
