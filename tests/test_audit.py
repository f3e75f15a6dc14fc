"""The audit refuses tasks that a kernel could pass without computing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.audit import audit
from tools.errors import TaskError
from tools.reference import load_reference
from tools.task import read_task

TASKS = Path(__file__).parent / "tasks"


def audited(
    tmp_path: Path, body: str, draw: str = "{'x': rng.standard_normal((32, 64), dtype=np.float32)}"
) -> tuple[str, ...]:
    path = tmp_path / "task.py"
    names = "x, y" if "'y'" in draw else "x"
    path.write_text(f"import numpy as np\ndef inputs(rng):\n    return {draw}\ndef reference({names}):\n    {body}\n")
    return audit(load_reference(read_task(path)), seed=11)


@pytest.mark.parametrize("task", ["saxpy.py", "two_sizes", "normalised_linear.py"])
def test_honest_tasks_pass(task: str) -> None:
    if task == "normalised_linear.py":
        pytest.importorskip("torch")
    assert not [note for note in audit(load_reference(read_task(TASKS / task)), seed=1) if "no influence" in note]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("return np.zeros_like(x)", "zeros"),
        ("return np.full_like(x, 3)", "a constant"),
        ("return x", "a copy of `x`"),
        ("return x.T.T * 1", "a copy of `x`"),
        ("return np.maximum(x * 0, 0)", "zeros"),
        ("return np.arange(64)", "earlier call"),
        ("return np.full(4, x.size)", "a constant"),
        ("return {'good': x * 2, 'bad': x * 0}", "`bad`"),
        ("return np.random.rand(*x.shape)", "different results"),
        ("return np.floor(np.abs(x) / 1e9)", "zeros"),
        ("return x[:0] * 2", "No output has any element"),
    ],
)
def test_degenerate_tasks_are_refused(tmp_path: Path, body: str, named: str) -> None:
    with pytest.raises(TaskError) as caught:
        audited(tmp_path, body)
    assert caught.value.fault == "degenerate"
    assert named in str(caught.value)


def test_single_number_that_changes_is_not_a_constant(tmp_path: Path) -> None:
    assert audited(tmp_path, "return np.asarray((x * x).mean())") == ()


def test_relu_of_positive_data_is_seen_through_by_the_other_distributions(tmp_path: Path) -> None:
    notes = audited(tmp_path, "return np.maximum(x, 0)", "{'x': rng.random((32, 64), dtype=np.float32)}")
    assert any("a copy of `x`" in note for note in notes)


def test_input_without_influence_is_noted(tmp_path: Path) -> None:
    notes = audited(tmp_path, "return x * 2 + 0 * y", "{'x': rng.random(99), 'y': rng.random(99)}")
    assert notes == ("the input `y` has no influence on the result",)
