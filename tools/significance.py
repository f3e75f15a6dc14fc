"""Intervals and decisions from noisy timings.

Timings on a shared machine have a heavy upper tail (stolen time, interrupts), so everything rests on medians and middle
means, and candidate and incumbent are compared pair by pair: both ran on the same content within a few milliseconds.
Not covered: bias that lasts for a whole process (memory placement); the judge answers that with fresh processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tools.records import Comparison, Interval

CONFIDENCE = 0.99
LEAST_GAIN = 0.01
"""A candidate must be this much faster (as a fraction) to be called so, however sure the sign of the difference is."""
CLEARLY_SLOWER = 0.1
"""An interval that ends this far (as a log ratio) below 1 says slower however few the pairs: nothing is kept by it."""
RESAMPLES = 4000
EXACT_PAIRS = 12


@dataclass(frozen=True)
class Pairs:
    """Paired seconds of one workload: `incumbent[i]` and `candidate[i]` were measured on the same content."""

    weight: float
    incumbent: Sequence[float]
    candidate: Sequence[float]


def median_interval(values: Sequence[float], confidence: float = 0.95, seed: int = 0) -> Interval:
    """Percentile bootstrap interval of the median. With one value the interval is that value."""
    medians = _bootstrap_medians(np.asarray(values, dtype=np.float64), np.random.default_rng(seed))
    low, high = _quantiles(medians, confidence)
    return Interval(low=low, high=high, confidence=confidence)


def median_half_width(values: Sequence[float]) -> float:
    """Half the width of a 95 per cent interval of the median, as a fraction of it, from the order of the values."""
    ordered = sorted(values)
    reach = 0.98 * math.sqrt(len(ordered))
    low, high = max(math.floor(len(ordered) / 2 - reach), 0), min(math.ceil(len(ordered) / 2 + reach), len(ordered) - 1)
    return (ordered[high] - ordered[low]) / 2 / ordered[len(ordered) // 2]


def decide(pairs: Sequence[Pairs], *, confidence: float = CONFIDENCE, seed: int = 0) -> Comparison:
    """Is the candidate faster? `ratio` is the weighted geometric mean over workloads of the middle paired ratio.

    "faster" needs three things: a bootstrap interval above 1, a gain of at least `LEAST_GAIN`, and a sign-flip test
    at the same confidence. Equal kernels that swap places give the same pairs with the signs flipped, so that test is
    exact for any noise, where the bootstrap of few pairs is too narrow.
    """
    rng = np.random.default_rng(seed)
    total = sum(item.weight for item in pairs)
    shares = [item.weight / total for item in pairs]
    logs = [np.log(np.asarray(item.incumbent, np.float64) / np.asarray(item.candidate, np.float64)) for item in pairs]
    centre = sum(share * float(_middle(values)) for share, values in zip(shares, logs, strict=True))
    resampled = np.zeros(RESAMPLES)
    for share, values in zip(shares, logs, strict=True):
        resampled += share * _middle(values[rng.integers(0, values.size, size=(RESAMPLES, values.size))])
    low, high = _quantiles(resampled, confidence)
    low, high = min(low, centre), max(high, centre)
    chance = _sign_flip_chance(shares, logs, rng)
    interval = Interval(low=float(np.exp(low)), high=float(np.exp(high)), confidence=confidence)
    sure = chance <= (1 - confidence) / 2
    least = float(np.log1p(LEAST_GAIN))
    decision: Literal["faster", "same", "slower"] = "same"
    if low > 0 and centre >= least and sure:
        decision = "faster"
    elif high < 0 and centre <= -least and (sure or high < -CLEARLY_SLOWER):
        decision = "slower"
    return Comparison(decision=decision, ratio=float(np.exp(centre)), interval=interval)


def least_pairs(confidence: float) -> int:
    """Pairs, over all workloads together, below which `decide` never says "faster": a sign-flip test of n pairs that
    all point one way has the chance 2^-n, which must not be above (1 - confidence) / 2."""
    return math.ceil(math.log2(2 / (1 - confidence)))


def settled(comparison: Comparison) -> bool:
    """Whether more samples would hardly change the decision: the interval is narrow or clear of 1 by some way."""
    low, high = comparison.interval.low, comparison.interval.high
    return high / low < 1 + 1.5 * LEAST_GAIN or low > 1 + LEAST_GAIN or high < 1 - LEAST_GAIN


def _middle(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the middle half along the last axis: as robust here as the median, and surer from few values."""
    count = values.shape[-1]
    cut = count // 4
    middle: NDArray[np.float64] = np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)
    return middle


def _sign_flip_chance(shares: Sequence[float], logs: Sequence[NDArray[np.float64]], rng: np.random.Generator) -> float:
    """How often equal kernels would look at least this much faster: flips the sign of every pair at random
    (all ways when there are few pairs)."""
    count = sum(values.size for values in logs)
    if count <= EXACT_PAIRS:
        signs = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    else:
        signs = rng.choice(np.array([-1.0, 1.0]), size=(RESAMPLES, count))
    clipped = np.concatenate([_clipped(values) for values in logs])
    sizes = [values.size for values in logs]
    observed = abs(float(_studentized(clipped[None, :], shares, sizes)[0]))
    flipped = _studentized(signs * clipped, shares, sizes)
    extreme = int(np.count_nonzero(flipped >= observed * (1 - 1e-9)))
    return extreme / len(signs) if count <= EXACT_PAIRS else (extreme + 1) / (len(signs) + 1)


def _studentized(rows: NDArray[np.float64], shares: Sequence[float], sizes: Sequence[int]) -> NDArray[np.float64]:
    """Weighted mean over its own standard error, for each row of pairs. Workloads that differ from each other do not
    count as noise."""
    centre, variance, start = np.zeros(len(rows)), np.full(len(rows), 1e-30), 0
    for share, size in zip(shares, sizes, strict=True):
        part = rows[:, start : start + size]
        centre += share * part.mean(axis=1)
        variance += share**2 * part.var(axis=1) / size
        start += size
    result: NDArray[np.float64] = centre / np.sqrt(variance)
    return result


def _clipped(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values with their magnitude bounded by one and a half median magnitudes, so that no outlier decides alone (and
    symmetric about 0, so that the sign-flip test stays exact)."""
    bound = 1.5 * float(np.median(np.abs(values)))
    return np.clip(values, -bound, bound)


def _bootstrap_medians(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    picks = rng.integers(0, values.size, size=(RESAMPLES, values.size))
    medians: NDArray[np.float64] = np.median(values[picks], axis=1)
    return medians


def _quantiles(values: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
