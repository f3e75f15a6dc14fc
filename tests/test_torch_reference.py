"""A reference that stays on the device: what is granted there is what the host grants; the rest the host judges.

The device here is the host itself: PyTorch runs the same code on either.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools import reference
from tools.distributions import DISTRIBUTIONS, transform
from tools.errors import TaskError
from tools.expected import Expected
from tools.hardware import instruments
from tools.numerics import QUIET, Slices, granted
from tools.reference import Reference, load_reference
from tools.rounding import rounded
from tools.task import TaskSource, read_task
from tools.tasks import torch_distributions
from tools.tasks.kernelbench import KernelBenchBackend
from tools.tasks.torch_reference import NearExpected, Place, jittered, rounded_to, share_of_floor

torch = pytest.importorskip("torch")
TASK = Path(__file__).parent / "tasks/normalised_linear.py"


class OnHost(Place):
    """A place that works as a GPU does, in the host's memory."""

    @property
    def on_gpu(self) -> bool:
        return True


HERE = OnHost(torch, "cpu")


def both(source: TaskSource) -> tuple[Reference, Reference]:
    return load_reference(source), Reference(source, KernelBenchBackend(source, HERE))


@given(
    st.lists(st.integers(1, 9), min_size=0, max_size=3),
    st.sampled_from(["float32", "float64"]),
    st.floats(1e-6, 1e6),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_the_device_finds_the_same_share_of_the_floor_as_the_host(
    sides: list[int], dtype: str, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(side * 17 for side in sides)
    oracle = np.asarray(rng.standard_normal(shape) * scale)
    actual = np.asarray(oracle * (1 + 1e-4 * rng.standard_normal(shape))).astype(dtype)
    length, floor = Slices(shape).length, granted(actual.dtype, "strict")
    there = share_of_floor(torch, torch.from_numpy(actual.copy()), torch.from_numpy(oracle.copy()), length, floor)
    here = instruments().share_of_floor(actual, oracle, length, floor, QUIET)
    assert here is not None
    assert there == pytest.approx(here, rel=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_left_to_the_host(bad: float) -> None:
    for spoilt in ("actual", "oracle"):
        arrays = {"actual": np.ones((2, 100)), "oracle": np.ones((2, 100))}
        arrays[spoilt][1, 99] = bad
        actual, oracle = (torch.from_numpy(each) for each in arrays.values())
        share = share_of_floor(torch, actual, oracle, 100, 1e-11)
        assert share == np.inf


def test_both_places_accept_and_refuse_alike_and_tell_the_same() -> None:
    source = read_task(TASK, {"batch_size": 64})
    host, device = both(source)
    assert host.near(0, {}) is None
    inputs = host.draw(0, 3)
    right = host.baseline(0, inputs)["out"]
    spoilt = right.copy()
    spoilt[7, 2] += 0.1
    for actual, fine in ((right, True), (spoilt, False), (np.zeros_like(right), False), (right + 1e-7, True)):
        checks = [Expected(each, 0, inputs, "strict").check({"out": actual}) for each in (host, device)]
        assert [check.ok for check in checks] == [fine, fine]
        assert checks[0].index == checks[1].index and checks[0].wrong == checks[1].wrong
        assert checks[0].worst == pytest.approx(checks[1].worst, rel=1e-3)


def test_a_brief_check_says_the_same_of_one_element() -> None:
    host, _ = both(read_task(TASK, {"batch_size": 64}))
    inputs = host.draw(0, 3)
    wrong = host.baseline(0, inputs)["out"] + 1
    brief = Expected(host, 0, inputs, "strict").check({"out": wrong}, brief=True)
    full = Expected(host, 0, inputs, "strict").check({"out": wrong})
    assert not brief.ok and brief.index == full.index and brief.expected == full.expected


def test_the_device_s_noise_is_of_the_host_s_size() -> None:
    host, device = both(read_task(TASK, {"batch_size": 256}))
    inputs = host.draw(0, 3)
    one, other = host.noise(0, inputs), device.noise(0, inputs)
    assert one is not None and other is not None
    assert 0.5 < np.mean(one["out"]) / np.mean(other["out"]) < 2
    assert device.distributions == host.distributions == DISTRIBUTIONS


def test_whole_numbers_and_bools_must_be_equal() -> None:
    own = {"index": torch.tensor([3, 1]), "flag": torch.tensor([True, False])}
    near = NearExpected(HERE, own, own)
    right: dict[str, Any] = {"index": np.array([3, 1]), "flag": np.array([True, False])}
    assert near.worst(right, "strict") == 0
    assert near.worst({**right, "index": np.array([3, 2])}, "strict") is None
    poison = np.array([0x21, 0], np.uint8).view(np.bool_)
    assert near.worst({**right, "flag": poison}, "strict") is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_jitter_is_half_a_unit_in_the_last_place(dtype: str) -> None:
    value = torch.ones(1000, dtype=getattr(torch, dtype))
    generator = torch.Generator().manual_seed(0)
    moved = jittered(torch, value, generator, None)
    assert moved.dtype == torch.float64
    assert float((moved - 1).abs().max()) == float(torch.finfo(value.dtype).eps) / 2
    assert 300 < int((moved < 1).sum()) < 700
    assert float((jittered(torch, value, generator, 8) - 1).abs().max()) == 2.0**-8


def test_rounding_is_to_the_nearest_and_as_on_the_host() -> None:
    generator, rng = torch.Generator(), np.random.default_rng(0)
    odd = torch.tensor([1 + 2.0**-9, -3 - 2.0**-9, 0.0, 2.0**-140, 1e30, 1.3], dtype=torch.float32)
    moved = rounded_to(torch, odd, generator, 8)
    assert moved[:4].tolist() == [1.0, -3.0, 0.0, 2.0**-140]
    assert np.array_equal(moved.numpy(), rounded(odd.numpy(), rng, 8))
    assert float((moved[4:] / odd[4:].double() - 1).abs().max()) <= 2.0**-8
    assert torch.equal(rounded_to(torch, odd, generator, None), odd.double())


@pytest.mark.parametrize("name", DISTRIBUTIONS[1:])
def test_large_inputs_move_to_the_same_distribution_on_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_distributions, "LARGE", 1000)
    array = np.random.default_rng(5).standard_normal((300, 200)).astype(np.float32) + 2
    array[0, :50] = 0
    there = torch_distributions.transformed(HERE, name, array, np.random.default_rng(1), signed=True)
    here = transform(name, array, np.random.default_rng(1), signed=True)
    assert there is not None and there.dtype == here.dtype and there.shape == here.shape
    assert not there[0, :50].any()
    if name == "sparse":  # which values are kept is a matter of the hash
        assert 0.05 < np.count_nonzero(there) / there.size < 0.25
        assert set(there[there != 0]) <= set(array[array != 0])
    else:
        assert np.allclose(there, here, rtol=1e-5, atol=1e-5)


def test_what_may_be_sorted_or_a_choice_is_left_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_distributions, "LARGE", 10)
    rng = np.random.default_rng(1)
    for array in (np.arange(100.0), np.ones((10, 10), np.int32), np.tile([0.0, 1.0], (100, 50))):
        assert torch_distributions.transformed(HERE, "shifted", array, rng, signed=True) is None
    small = rng.standard_normal((2, 2))
    assert torch_distributions.transformed(HERE, "shifted", small, rng, signed=True) is None


class Broken(OnHost):
    """A GPU that has no room."""

    def tensor(self, value: Any, *, wide: bool = False) -> Any:  # noqa: ARG002
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")


def test_a_reference_that_fails_on_the_gpu_runs_on_the_host_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "torch_place", lambda target: Broken(torch) if target == "cuda" else Place(torch))
    with pytest.raises(TaskError) as caught:
        KernelBenchBackend(read_task(TASK), Broken(torch))
    assert caught.value.fault == "too_large"
    found = load_reference(read_task(TASK), "cuda")
    assert not found.on_gpu
    assert any("on the GPU it fails" in note and "more memory" in note for note in found.notes)
    assert not any("GPU" in note for note in load_reference(read_task(TASK)).notes)
