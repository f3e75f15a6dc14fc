"""Keep or reject: equal kernels are hardly ever kept, clearly faster ones nearly always."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.measure import LOOK_CONFIDENCE
from tools.significance import CONFIDENCE, LEAST_GAIN, Pairs, decide, least_pairs, median_interval, settled


def noisy_pairs(rng: np.random.Generator, count: int, gain: float, spread: float = 0.03) -> Pairs:
    """Times as on a virtual machine: slow drift common to a pair, jitter, and stolen time in a fifth of the calls."""
    drift = rng.normal(0, 0.05, count)

    def one() -> np.ndarray:
        return np.exp(drift + rng.normal(0, spread, count) + (rng.random(count) < 0.2) * rng.exponential(0.1, count))

    incumbent, candidate = one() * (1 + gain), one()
    return Pairs(1.0, list(1e-3 * incumbent), list(1e-3 * candidate))


def share_kept(workloads: int, pairs: int, gain: float, trials: int, spread: float = 0.03) -> float:
    rng = np.random.default_rng(20261130 + workloads * 1000 + pairs)
    kept = 0
    for _ in range(trials):
        kept += decide([noisy_pairs(rng, pairs, gain, spread) for _ in range(workloads)]).decision == "faster"
    return kept / trials


@pytest.mark.parametrize(("workloads", "pairs"), [(1, 8), (1, 20), (1, 40), (2, 5), (3, 12)])
def test_equal_kernels_are_kept_in_less_than_one_race_in_a_hundred(workloads: int, pairs: int) -> None:
    assert share_kept(workloads, pairs, 0.0, trials=200) <= 0.02  # 1 % in 200 trials: 2 expected, 5 once in 20 runs


@pytest.mark.parametrize(("workloads", "pairs"), [(1, 40), (2, 20), (3, 20)])
def test_kernels_faster_by_five_percent_are_nearly_always_kept(workloads: int, pairs: int) -> None:
    assert share_kept(workloads, pairs, 0.05, trials=60, spread=0.02) >= 0.95


def test_few_pairs_decide_a_large_gain_but_not_fewer_than_the_least() -> None:
    rng = np.random.default_rng(5)
    enough = [noisy_pairs(rng, least_pairs(CONFIDENCE), gain=1.0)]
    assert decide(enough).decision == "faster"
    assert decide([Pairs(1.0, enough[0].incumbent[:5], enough[0].candidate[:5])]).decision == "same"


@pytest.mark.parametrize("confidence", [CONFIDENCE, LOOK_CONFIDENCE])
def test_the_fewest_pairs_of_a_race_are_enough_for_a_clear_gain_and_one_less_is_not(confidence: float) -> None:
    count = least_pairs(confidence)
    clear = Pairs(1.0, [6.0 + 0.01 * i for i in range(count)], [1.0] * count)
    fewer = Pairs(1.0, clear.incumbent[1:], clear.candidate[1:])
    assert decide([clear], confidence=confidence).decision == "faster"
    assert decide([fewer], confidence=confidence).decision == "same"


def test_a_gain_below_the_least_is_not_kept_however_sure_it_is() -> None:
    steady = Pairs(1.0, [1.005e-3] * 30, [1e-3] * 30)
    comparison = decide([steady])
    assert comparison.interval.low > 1
    assert comparison.decision == "same"


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), gain=st.floats(-0.3, 0.5), pairs=st.integers(3, 20))
def test_swapping_the_sides_mirrors_the_ratio_and_never_keeps_both(seed: int, gain: float, pairs: int) -> None:
    one = noisy_pairs(np.random.default_rng(seed), pairs, gain)
    there = decide([one])
    back = decide([Pairs(1.0, one.candidate, one.incumbent)])
    assert there.ratio * back.ratio == pytest.approx(1.0)
    assert not (there.decision == "faster" and back.decision == "faster")
    assert there.interval.low <= there.ratio <= there.interval.high


def test_the_same_samples_give_the_same_decision() -> None:
    one = noisy_pairs(np.random.default_rng(1), 20, 0.02)
    assert decide([one]) == decide([one])


def test_one_workload_that_collapses_does_not_carry_the_rest() -> None:
    """A geometric mean with weights: 10x on a tenth of the weight is 26 %, and a loss elsewhere counts."""
    fast = Pairs(1.0, [1e-2] * 20, [1e-3] * 20)
    slow = Pairs(9.0, [1e-3] * 20, [1.5e-3] * 20)
    assert decide([fast, slow]).decision == "slower"


def test_a_much_slower_kernel_is_called_slower_after_three_pairs() -> None:
    comparison = decide([Pairs(1.0, [1.0, 1.01, 0.99], [1.5, 1.6, 1.4])])
    assert comparison.decision == "slower"
    assert settled(comparison)


def test_an_interval_far_below_one_says_slower_even_with_one_odd_pair() -> None:
    comparison = decide([Pairs(1.0, [1.0] * 4, [2.0, 2.1, 1.9, 1.2])])
    assert comparison.interval.high < 0.9
    assert comparison.decision == "slower"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=50))
def test_the_median_lies_in_its_interval(values: list[float]) -> None:
    interval = median_interval(values)
    assert min(values) <= interval.low <= interval.high <= max(values)
    assert interval.low <= float(np.median(values)) * (1 + 1e-9)
    assert interval.high >= float(np.median(values)) * (1 - 1e-9)


def test_pages_say_what_kept_requires() -> None:
    root = Path(__file__).resolve().parent.parent
    readme, note = (root / "README.md").read_text(), next((root / "docs/decisions").glob("0004*")).read_text()
    for page in (readme, note):
        assert f"{LOOK_CONFIDENCE * 100:g} %" in page and "together" in page
    assert f"its middle at {1 + LEAST_GAIN:g} or more" in readme
    assert f"a middle of {1 + LEAST_GAIN / 2:g} or more" in readme
    assert f"{LEAST_GAIN:.0%}".replace("%", " %") in note and f"{LEAST_GAIN / 2:.1%}".replace("%", " %") in note
