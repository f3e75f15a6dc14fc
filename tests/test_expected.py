"""The right answer is worked out as far as a comparison needs it, and says the same whatever was worked out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tools.expected import Expected
from tools.reference import Reference, load_reference
from tools.task import read_task


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    path = tmp_path_factory.mktemp("task") / "scaled.py"
    path.write_text(
        "import numpy as np\n"
        "def inputs(rng):\n    return {'x': rng.standard_normal((64, 32), dtype=np.float32)}\n"
        "def reference(x):\n    return {'y': np.exp(x) * np.float32(3)}\n"
    )
    yield load_reference(read_task(path))


@pytest.mark.parametrize(("factor", "ok", "baselines"), [(1.0, True, 0), (1.0 + 1e-7, True, 0), (1.001, False, 1)])
def test_the_baseline_is_run_only_where_its_error_matters(
    reference: Reference, monkeypatch: pytest.MonkeyPatch, factor: float, ok: bool, baselines: int
) -> None:
    inputs = reference.draw(0, 7)
    exact = reference.oracle(0, inputs)
    assert exact is not None
    run, runs = reference.baseline, []
    monkeypatch.setattr(reference, "baseline", lambda *given: runs.append(given) or run(*given))
    expected = Expected(reference, 0, inputs, "strict")
    expected.work_out()
    check = expected.check({"y": (exact["y"] * factor).astype(np.float32)})
    assert (check.ok, len(runs)) == (ok, baselines)
    if ok:
        assert 0 <= check.worst <= 1
    else:
        assert check.output == "y" and check.wrong > exact["y"].size // 2


TASK = Path(__file__).parent / "tasks_adversary/gemm"


def kept(values: np.ndarray, lost: int, *, nearest: bool) -> np.ndarray:
    """float32 without its last `lost` bits, in float64."""
    bits = values.astype(np.float32).view(np.uint32) + np.uint32(1 << (lost - 1) if nearest else 0)
    return (bits >> np.uint32(lost) << np.uint32(lost)).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("distribution", ["given", "heavy_tailed", "shifted", "sparse", "structured"])
@pytest.mark.parametrize("nearest", [True, False])
def test_products_of_operands_in_tf32_pass_where_the_policy_allows_them(distribution: str, nearest: bool) -> None:
    """Both ways in which hardware gets its operands; on a ramp rounding errors of neighbours are alike and add up."""
    reference = load_reference(read_task(TASK).model_copy(update={"policy": "tf32"}))
    for seed in range(12):
        inputs = reference.draw(0, seed, distribution)
        a, b = inputs.values()
        product = (kept(a, 13, nearest=nearest) @ kept(b, 13, nearest=nearest)).astype(np.float32)
        assert Expected(reference, 0, inputs, "tf32").check({"c": product}).ok
        assert not Expected(reference, 0, inputs, "tf32").check({"c": np.zeros_like(product)}).ok
    if distribution != "shifted":
        short = (kept(a, 16, nearest=True) @ kept(b, 16, nearest=True)).astype(np.float32)
        assert Expected(reference, 0, inputs, "strict").check({"c": short}).ok is False
