"""The right answer is worked out as far as a comparison needs it, and says the same whatever was worked out."""

from __future__ import annotations

from collections.abc import Iterator

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
