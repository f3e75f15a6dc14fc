"""Loading and running references: what they give, and how each fault is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tools.content import Content
from tools.contestants import BaselineRunner
from tools.contract import Scalar, Tensor
from tools.errors import TaskError
from tools.numerics import compare
from tools.reference import Reference, load_reference
from tools.task import read_task

TASKS = Path(__file__).parent / "tasks"
PREFIX = "import numpy as np\n"
INPUTS = "def inputs(rng):\n    return {'x': rng.standard_normal(100)}\n"


def load(tmp_path: Path, text: str, **overrides: object) -> Reference:
    path = tmp_path / "task.py"
    path.write_text(PREFIX + text)
    return load_reference(read_task(path, overrides))  # type: ignore[arg-type]


def fault(tmp_path: Path, text: str, **overrides: object) -> tuple[str, str]:
    with pytest.raises(TaskError) as caught:
        load(tmp_path, text, **overrides)
    return caught.value.fault, str(caught.value)


def test_signature_seeds_and_figures_of_a_numpy_file() -> None:
    reference = load_reference(read_task(TASKS / "saxpy.py", {"SIZE": 96}))
    assert reference.signature(0).inputs == (
        Tensor(name="x", dtype="float32", shape=(96,)),
        Tensor(name="y", dtype="float32", shape=(96,)),
        Scalar(name="factor", ctype="float64"),
    )
    one, same, other = (reference.draw(0, seed) for seed in (1, 1, 2))
    assert np.array_equal(one["x"], same["x"]) and not np.array_equal(one["x"], other["x"])
    assert (reference.flops(0, one), reference.bytes_moved(0, one)) == (192, 3 * 96 * 4)
    assert any("SIZE=96" in note for note in reference.notes)


def test_baseline_oracle_and_call_agree() -> None:
    reference = load_reference(read_task(TASKS / "saxpy.py"))
    inputs = reference.draw(0, 3, "heavy_tailed")
    own, oracle = reference.baseline(0, inputs), reference.oracle(0, inputs)
    assert oracle is not None
    assert own["out"].dtype == np.float32
    assert oracle["out"].dtype == np.float64
    assert compare(own, oracle, own, "strict", noise=reference.noise(0, inputs)).ok
    assert np.array_equal(reference.baseline_call(0, inputs)(), own["out"])  # type: ignore[arg-type]


def test_folder_with_two_workloads_and_an_imported_module() -> None:
    reference = load_reference(read_task(TASKS / "two_sizes"))
    assert [t.shape for t in reference.signature(1).outputs] == [(4,), (4,)]
    assert reference.distributions == ("given", "heavy_tailed", "structured")
    inputs = reference.draw(1, 0)
    assert reference.flops(1, inputs) == 20000
    assert reference.flops(0, reference.draw(0, 0)) is None
    oracle = reference.oracle(1, inputs)
    assert oracle is not None and oracle["place"].dtype == np.int64


def test_bfloat16_and_zero_dimensional_and_empty(tmp_path: Path) -> None:
    reference = load(
        tmp_path,
        "import ml_dtypes\n"
        "def inputs(rng):\n"
        "    x = rng.random((3, 4)).astype(ml_dtypes.bfloat16)\n"
        "    return {'x': x, 'none': np.empty((0, 2)), 'k': np.float32(2)}\n"
        "def reference(x, none, k):\n"
        "    return (x * x.dtype.type(2), np.asarray(x.sum() * k), none)\n",
    )
    assert [(t.name, t.dtype, t.shape) for t in reference.signature(0).outputs] == [
        ("out0", "bfloat16", (3, 4)),
        ("out1", "float32", ()),
        ("out2", "float64", (0, 2)),
    ]


def test_distribution_without_a_finite_result_is_dropped_and_noted(tmp_path: Path) -> None:
    text = "def inputs(rng):\n    return {'x': 1 + rng.random(100)}\ndef reference(x):\n    return 1 / x\n"
    reference = load(tmp_path, text)
    assert "sparse" not in reference.distributions
    assert any("sparse" in note for note in reference.notes)


def test_data_that_must_be_positive_stay_positive(tmp_path: Path) -> None:
    text = "def inputs(rng):\n    return {'x': rng.random(100)}\ndef reference(x):\n    return np.sqrt(x)\n"
    reference = load(tmp_path, text)
    assert "heavy_tailed" in reference.distributions
    assert np.min(reference.draw(0, 1, "heavy_tailed")["x"]) >= 0


def test_update_in_place(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text("inplace = ['x']\n")
    (tmp_path / "reference.py").write_text(PREFIX + INPUTS + "def reference(x):\n    x += 1\n    return {'x': x}\n")
    reference = load_reference(read_task(tmp_path))
    inputs = reference.draw(0, 0)
    before = np.array(inputs["x"])
    assert np.array_equal(reference.baseline(0, inputs)["x"], before + 1)
    assert np.array_equal(inputs["x"], before)
    assert reference.signature(0).in_place == {"x"}


@pytest.mark.parametrize(
    ("text", "expected", "named"),
    [
        (INPUTS + "def reference(x):\n    return 1 / 0\n", "raised", "task.py:5: ZeroDivisionError"),
        (INPUTS + "def reference(x):\n    raise SystemExit(3)\n", "raised", "SystemExit"),
        ("boom()\n" + INPUTS + "def reference(x):\n    return x\n", "raised", "task.py:2: NameError"),
        (INPUTS + "def reference(x):\n    x[0] = 1\n    return x\n", "raised", "task.py:5"),
        ("import no_such_package\n" + INPUTS + "def reference(x):\n    return x\n", "missing", "no_such_package"),
        (INPUTS + "def reference(x):\n    return x * np.nan\n", "not_finite", "NaN"),
        (INPUTS + "def reference(x):\n    return np.full(3, np.inf)\n", "not_finite", "infinity"),
        (INPUTS + "def reference(x):\n    return 'text'\n", "shapes", "str"),
        (INPUTS + "def reference(x):\n    return x + 1j\n", "shapes", "complex128"),
        (INPUTS + "def reference(x):\n    return {'x': x}\n", "shapes", "`x`"),
        (INPUTS + "def reference(x):\n    return {'no way': x}\n", "shapes", "no way"),
        (INPUTS + "def reference(x):\n    return {}\n", "shapes", "at least one output"),
        ("def inputs(rng):\n    return [1]\ndef reference(x):\n    return x\n", "shapes", "list"),
        ("def inputs(rng):\n    return {'x': ['a']}\ndef reference(x):\n    return x\n", "shapes", "`x`"),
        (
            "def inputs(rng):\n    return {'x': rng.random(rng.integers(5, 900))}\ndef reference(x):\n    return x\n",
            "shapes",
            "seed",
        ),
        (
            "def inputs(rng):\n    return {'x': np.empty(1 << 46)}\ndef reference(x):\n    return x\n",
            "too_large",
            "memory",
        ),
        (INPUTS + "def reference(x):\n    return [np.empty(1 << 28) for _ in range(999)]\n", "too_large", "task.py:5"),
        ("def inputs(rng):\n    return {'n': 2**70}\ndef reference(n):\n    return n * 1.0\n", "shapes", "64-bit"),
        ("def inputs(rng):\n    return {'n': 2**63}\ndef reference(n):\n    return n * 1.0\n", "shapes", "64-bit"),
    ],
)
def test_faults(tmp_path: Path, text: str, expected: str, named: str) -> None:
    kind, message = fault(tmp_path, text)
    assert (kind, named in message) == (expected, True), message


def test_a_reference_that_fails_only_while_it_is_timed_is_the_task_s_fault(tmp_path: Path) -> None:
    text = INPUTS + "def reference(x):\n    assert x.max() < 9, 'too large'\n    return 2 * x\n"
    reference = load(tmp_path, text)
    content = Content(reference, 0, "given", {"x": np.asarray(reference.draw(0, 1)["x"]) + 9}, "strict")
    with pytest.raises(TaskError) as caught:
        BaselineRunner(reference).call(content)
    assert caught.value.fault == "raised" and "task.py:" in caught.value.message and "timed" in caught.value.message


def test_sizes_may_not_differ_in_rank_between_workloads(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text(
        "[[workloads]]\nname = 'a'\nparameters = { shape = [4] }\n"
        "[[workloads]]\nname = 'b'\nparameters = { shape = [4, 4] }\n"
    )
    (tmp_path / "reference.py").write_text(
        "def inputs(rng, shape):\n    return {'x': rng.random(shape)}\ndef reference(x):\n    return x\n"
    )
    with pytest.raises(TaskError) as caught:
        load_reference(read_task(tmp_path))
    assert caught.value.fault == "shapes"


class TestKernelBench:
    torch = pytest.importorskip("torch")

    def test_arguments_parameters_and_buffers(self) -> None:
        reference = load_reference(read_task(TASKS / "normalised_linear.py", {"batch_size": 8, "features": 10}))
        described = {i.name: i.shape if isinstance(i, Tensor) else i.ctype for i in reference.signature(0).inputs}
        assert described == {
            "x": (8, 10),
            "scale": "float64",
            "linear_weight": (5, 10),
            "linear_bias": (5,),
            "norm_weight": (5,),
            "norm_bias": (5,),
            "norm_running_mean": (5,),
            "norm_running_var": (5,),
        }

    def test_no_parameter_can_be_ignored(self) -> None:
        reference = load_reference(read_task(TASKS / "normalised_linear.py"))
        one, two = reference.draw(0, 1), reference.draw(0, 2, "sparse")
        for name in ("norm_weight", "norm_bias", "norm_running_mean", "norm_running_var", "linear_weight"):
            assert np.std(one[name]) > 0.05
            assert not np.array_equal(one[name], two[name])
        assert np.min(one["norm_running_var"]) > 0

    def test_result_is_that_of_the_formula(self) -> None:
        reference = load_reference(read_task(TASKS / "normalised_linear.py", {"batch_size": 64}))
        inputs = reference.draw(0, 5, "heavy_tailed")
        i = {k: np.asarray(v, np.float64) for k, v in inputs.items()}
        raw = i["x"] @ i["linear_weight"].T + i["linear_bias"]
        normal = (raw - i["norm_running_mean"]) / np.sqrt(i["norm_running_var"] + 1e-5) * i["norm_weight"]
        expected = np.maximum(normal + i["norm_bias"], 0) * 1.5
        oracle, own = reference.oracle(0, inputs), reference.baseline(0, inputs)
        assert oracle is not None
        assert np.allclose(oracle["out"], expected, rtol=1e-12)
        assert compare(own, oracle, own, "strict").ok
        assert np.array_equal(np.asarray(reference.baseline_call(0, inputs)()), own["out"])

    def test_size_that_can_not_fit_is_refused_before_allocating(self) -> None:
        with pytest.raises(TaskError) as caught:
            load_reference(read_task(TASKS / "normalised_linear.py", {"batch_size": 1 << 40}))
        assert caught.value.fault == "too_large"
        assert "GiB" in str(caught.value)

    def test_random_values_outside_parameters_are_refused(self, tmp_path: Path) -> None:
        text = (TASKS / "normalised_linear.py").read_text()
        path = tmp_path / "task.py"
        path.write_text(text.replace("super().__init__()", "super().__init__(); self.secret = torch.rand(1)").replace(
            ") * scale", ") * scale * self.secret"))  # fmt: skip
        with pytest.raises(TaskError) as caught:
            load_reference(read_task(path))
        assert caught.value.fault == "not_a_task"

    def test_global_generators_are_left_alone(self) -> None:
        self.torch.manual_seed(7)
        expected = self.torch.rand(1)
        self.torch.manual_seed(7)
        load_reference(read_task(TASKS / "normalised_linear.py", {"batch_size": 4}))
        assert self.torch.equal(self.torch.rand(1), expected)

    def test_error_in_forward_names_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "task.py"
        path.write_text((TASKS / "normalised_linear.py").read_text().replace("torch.relu(", "torch.relu(1 + "))
        path.write_text(path.read_text().replace("def get_inputs():", "def get_inputs():\n    assert batch_size < 9"))
        with pytest.raises(TaskError, match=r"task\.py:\d+: AssertionError"):
            load_reference(read_task(path))
