"""Tolerances: honest arithmetic passes whatever its order, lost precision and shortcuts fail."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tools.distributions import DISTRIBUTIONS, transform
from tools.numerics import Check, compare
from tools.reference import load_reference
from tools.task import TaskSource

Array = NDArray[Any]
SEEDS = st.integers(0, 2**32 - 1)
DRAWN = ("given", "heavy_tailed", "shifted", "structured")


def judge(actual: Array, oracle: Array, own: Array, noise: Array | None = None) -> Check:
    return compare(
        {"out": actual}, {"out": oracle}, {"out": own}, "strict", noise=None if noise is None else {"out": noise}
    )


def wide(a: Array) -> NDArray[np.float64]:
    return a.astype(np.float64)


def rounded(a: Array, bits: int) -> Array:
    """float32 values with a mantissa of `bits` explicit bits, rounded to nearest: 10 is TF32's, 7 is bfloat16's."""
    words = a.astype(np.float32).view(np.uint32)
    step = np.uint32(1 << (23 - bits))
    return ((words + step // np.uint32(2)) & ~(step - np.uint32(1))).view(np.float32)


def matrices(seed: int, distribution: str, positive: bool) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    shapes = ((int(rng.integers(8, 70)), int(rng.integers(64, 300))), (0, int(rng.integers(8, 70))))
    draw = rng.random if positive else rng.standard_normal
    a = draw(shapes[0], dtype=np.float32)
    b = draw((a.shape[1], shapes[1][1]), dtype=np.float32)
    return transform(distribution, a, rng), transform(distribution, b, rng)


def in_sequence(a: Array, b: Array, order: Array) -> Array:
    """A float32 product summed one k at a time, in the order given: the least accurate honest kernel."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in order:
        total += a[:, k, None] * b[k]
    return total


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, distribution=st.sampled_from(DISTRIBUTIONS), positive=st.booleans())
def test_any_order_of_summation_passes(seed: int, distribution: str, positive: bool) -> None:
    a, b = matrices(seed, distribution, positive)
    oracle = wide(a) @ wide(b)
    order = np.random.default_rng(seed).permutation(a.shape[1])
    check = judge(in_sequence(a, b, order), oracle, a @ b)
    assert check.ok, check


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, bits=st.sampled_from([7, 10]), positive=st.booleans())
def test_rounded_factors_fail(seed: int, bits: int, positive: bool) -> None:
    """TF32 and bfloat16 multiplication with float32 sums: each distribution but that of positive data must see it."""
    a, b = matrices(seed, "heavy_tailed", positive)
    assert not judge(rounded(a, bits) @ rounded(b, bits), wide(a) @ wide(b), a @ b).ok


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, distribution=st.sampled_from(DRAWN), dtype=st.sampled_from([np.float16, ml_dtypes.bfloat16]))
def test_sums_kept_in_half_precision_fail(seed: int, distribution: str, dtype: Any) -> None:
    a, b = matrices(seed, distribution, positive=False)
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    total = np.zeros((a.shape[0], b.shape[1]), dtype)
    for k in range(a.shape[1]):
        total = (total.astype(np.float32) + a[:, k, None] * b[k]).astype(dtype)
    assert not judge(total.astype(np.float32), wide(a) @ wide(b), a @ b).ok


@pytest.mark.parametrize("bits", [7, 10])
@pytest.mark.parametrize("function", [np.exp, np.tanh, lambda x: np.maximum(x, 0), lambda x: x.sum(axis=1)])
def test_rounded_inputs_fail_elementwise_and_in_sums(function: Any, bits: int) -> None:
    x = np.random.default_rng(0).standard_normal((64, 512), dtype=np.float32)
    assert not judge(function(rounded(x, bits)), function(wide(x)), function(x)).ok
    assert judge(function(x), function(wide(x)), function(x)).ok


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, distribution=st.sampled_from(DRAWN))
def test_shortcuts_fail(seed: int, distribution: str) -> None:
    a, b = matrices(seed, distribution, positive=True)
    own, oracle = a @ b, wide(a) @ wide(b)
    tail = own.copy()
    tail[-1, -1] = 0
    half = own.copy()
    half[len(half) // 2 :] = 0
    shortcuts = [
        np.zeros_like(own),
        np.full_like(own, own.mean()),
        own.mean(axis=1, keepdims=True) + 0 * own,
        tail,
        half,
    ]
    assert [judge(s, oracle, own).ok for s in shortcuts] == [False] * len(shortcuts)


def test_long_sum_of_positive_numbers_one_by_one() -> None:
    """A softmax's denominator over 393216 elements with sixteen running sums."""
    x = np.random.default_rng(0).random((4, 393216), dtype=np.float32)
    lanes = np.cumsum(x.reshape(4, -1, 16), axis=1, dtype=np.float32)[:, -1].sum(axis=1)
    assert judge(lanes, wide(x).sum(axis=1), x.sum(axis=1)).ok


def test_noise_saves_a_sum_that_cancels() -> None:
    """A single result near zero: only the noise tells that no kernel can do better."""
    x = np.random.default_rng(2).standard_normal(1 << 16).astype(np.float32)
    x[-1] -= np.float32(wide(x).sum())
    oracle, own = np.asarray(wide(x).sum()), np.asarray(np.float32(math.fsum(x)))
    actual = np.asarray(np.cumsum(x.reshape(-1, 16), axis=0)[-1].sum())
    noise = np.asarray(np.sqrt((wide(x) ** 2).sum()) * 2.0**-24)
    assert not judge(actual, oracle, own).ok
    assert judge(actual, oracle, own, noise).ok
    assert not judge(actual + np.float32(1), oracle, own, noise).ok


def test_not_a_number_and_infinities_must_agree() -> None:
    own = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    assert judge(own.copy(), wide(own), own).ok
    for place, value in ((0, np.nan), (1, 0.0), (2, -np.inf), (3, 1e30)):
        wrong = own.copy()
        wrong[place] = value
        check = judge(wrong, wide(own), own)
        assert (check.ok, check.index, check.wrong) == (False, (place,), 1)


def test_overflow_of_the_output_type_is_expected() -> None:
    oracle = np.array([1e5, 1.0])
    with np.errstate(over="ignore"):
        own = oracle.astype(np.float16)
    assert judge(own, oracle, own).ok
    assert not judge(np.array([65504, 1], np.float16), oracle, own).ok


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.bool_])
def test_integers_are_exact(dtype: Any) -> None:
    own = np.arange(200).astype(dtype).reshape(2, 100)
    assert judge(own.copy(), own, own).ok
    wrong = own.copy()
    wrong[1, 3] = not wrong[1, 3] if dtype is np.bool_ else wrong[1, 3] + 1
    check = judge(wrong, own, own)
    assert (check.ok, check.index, check.wrong, check.total) == (False, (1, 3), 1, 200)


def test_large_integers_do_not_pass_through_floats() -> None:
    own = np.array([2**62 + 1])
    assert not judge(own - 1, own, own).ok


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_float_type_accepts_its_own_rounding_and_refuses_a_coarser_one(dtype: Any) -> None:
    oracle = np.random.default_rng(1).standard_normal((16, 100))
    own = oracle.astype(dtype)
    assert judge(own, own.astype(np.float64), own).ok
    coarse = {"float64": 1e-7, "float32": 3e-4, "float16": 2e-2, "bfloat16": 0.2}[str(np.dtype(dtype))]
    assert not judge((oracle * (1 + coarse)).astype(dtype), own.astype(np.float64), own).ok


def test_empty_and_zero_dimensional() -> None:
    empty = np.empty((0, 3), np.float32)
    assert judge(empty, wide(empty), empty).ok
    one = np.array(2.0, np.float32)
    assert judge(one, wide(one), one).ok
    check = judge(one * 2, wide(one), one)
    assert (check.ok, check.index, check.expected, check.actual) == (False, (), "2", "4")


def test_failure_says_where_and_what() -> None:
    own = np.ones((6, 5000), np.float32)
    wrong = own.copy()
    wrong[2, 7] = 3
    wrong[4, 4000:] = 9
    check = judge(wrong, wide(own), own)
    record = check.mismatch("square", "given")
    assert (record.index, record.expected, record.actual) == ((2, 7), "1", "3")
    assert (record.wrong, record.total) == (1001, 30000)
    assert record.worst_slice.startswith("out[4, ")


def test_without_an_oracle_the_baseline_counts() -> None:
    own = np.ones(100, np.float32)
    assert compare({"o": own}, None, {"o": own}, "strict").ok
    assert not compare({"o": own * 2}, None, {"o": own}, "strict").ok


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "bool", "float64"])
def test_transforms_keep_shape_type_and_depend_on_nothing_but_the_seed(name: str, dtype: str) -> None:
    drawn = (np.random.default_rng(0).standard_normal((32, 33)) * 50).astype(dtype)
    one, two = (transform(name, drawn, np.random.default_rng(5)) for _ in range(2))
    assert (one.shape, one.dtype) == (drawn.shape, drawn.dtype)
    assert np.array_equal(one, two)
    if dtype in ("int32", "uint8"):
        assert set(np.unique(one)) <= set(np.unique(drawn))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_transforms_keep_structure(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((40, 40), dtype=np.float32)
    symmetric = transform(name, (x + x.T) / 2, rng)
    assert np.array_equal(symmetric, symmetric.T)
    assert not np.tril(transform(name, np.triu(x), rng), -1).any()
    offsets = np.cumsum(rng.integers(0, 5, 50))
    assert np.array_equal(transform(name, offsets, rng), offsets)
    permutation = rng.permutation(100)
    assert np.array_equal(np.sort(transform(name, permutation, rng)), np.arange(100))
    labels = rng.choice(np.array([-1, 1], np.float32), 200)
    assert set(np.unique(transform(name, labels, rng))) <= {-1, 1}
    assert transform(name, x, rng, signed=False).min() >= 0


@pytest.mark.parametrize("name", ["heavy_tailed", "shifted"])
def test_positive_data_become_centred(name: str) -> None:
    moved = transform(name, np.random.default_rng(0).random(10000, dtype=np.float32), np.random.default_rng(1))
    assert abs(moved.mean()) < 0.2 * moved.std()


@pytest.mark.parametrize("columns", [1024, 4096])
def test_a_plain_one_by_one_sum_passes_under_every_distribution_and_seed(columns: int) -> None:
    source = TaskSource(
        name="rowsum",
        kind="numpy",
        entry="rowsum.py",
        files={
            "rowsum.py": "import numpy as np\n"
            f"def inputs(rng): return {{'x': rng.standard_normal((64, {columns})).astype(np.float32)}}\n"
            "def reference(x): return {'out': x.sum(axis=1)}\n"
        },
    )
    reference = load_reference(source)
    for seed in range(20):
        for distribution in reference.distributions:
            drawn = reference.draw(0, seed, distribution)
            oracle = reference.oracle(0, drawn)
            one_by_one = {"out": np.cumsum(drawn["x"], axis=1, dtype=np.float32)[:, -1].copy()}
            noise = reference.noise(0, drawn, oracle)
            check = compare(one_by_one, oracle, reference.baseline(0, drawn), "strict", noise=noise)
            assert check.ok, (seed, distribution, check)
