"""Input distributions: what a correct kernel must also survive, each a transform of the inputs as the task draws them.

Transforms keep shape and dtype, and as far as they can the structure that a task may rely on: equal values stay equal
(so a symmetric matrix stays symmetric), zeros stay zeros (a triangular one stays triangular), integers stay within the
values that were drawn, sorted vectors and permutations stay what they are. Not covered: other hidden structure, such as
rows that sum to one; the reference is probed under each distribution and the task may name those that make sense.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools.tasks.values import FLOATS

DISTRIBUTIONS = ("given", "heavy_tailed", "shifted", "sparse", "structured")

Wide = NDArray[np.float64]
FEW = 16
"""An array of many elements with no more distinct values than this holds choices, not measurements."""


def transform(name: str, array: NDArray[Any], rng: np.random.Generator, *, signed: bool = True) -> NDArray[Any]:
    """`array`, an input as the task drew it, moved to the distribution `name`.

    Without `signed`, an array that was drawn without negative values stays without them.
    """
    if name == "given" or array.size < 2:
        return array
    if array.dtype == np.bool_:
        return _BOOLS[name](array, rng)
    wide = array.astype(np.float64)
    if _is_sorted(array) or not np.isfinite(wide).all():
        return array
    if array.dtype in FLOATS and not has_few_values(array):
        return _float(name, array, wide, rng, signed=signed)
    flat = array.reshape(-1)
    if flat.size <= 1 << 20 and np.unique(flat).size == flat.size:
        return rng.permutation(flat).reshape(array.shape)
    return _CHOICES[name](flat, rng).reshape(array.shape)


def _float(name: str, array: NDArray[Any], wide: Wide, rng: np.random.Generator, *, signed: bool) -> NDArray[Any]:
    occupied = wide != 0
    values = wide[occupied]
    mean, spread = float(values.mean()), float(values.std())
    if spread == 0:
        return array
    moved = np.where(occupied, _FLOATS[name](array, wide, mean, spread, rng), 0.0)
    if not signed and float(values.min()) >= 0:
        moved = np.abs(moved)
    bound = float(np.finfo(np.float32).max) if array.dtype.itemsize > 2 else 6e4
    return np.asarray(np.clip(moved, -bound, bound)).astype(array.dtype)


def _heavy_tailed(_: NDArray[Any], wide: Wide, mean: float, spread: float, rng: np.random.Generator) -> Wide:
    """Centred, so that sums cancel; most values small, a few up to about a hundred times the spread."""
    steep = rng.uniform(1.3, 1.5)
    return np.asarray(spread * np.sinh(steep * np.clip((wide - mean) / spread, -5, 5)) / steep)


def _shifted(_: NDArray[Any], wide: Wide, mean: float, spread: float, rng: np.random.Generator) -> Wide:
    """Another mean and scale: centred where the task's data have an offset, offset where they have none."""
    scale = rng.uniform(1.5, 2.5)
    return np.asarray(scale * (wide - mean) if abs(mean) > 0.5 * spread else wide + scale * 1.5 * spread)


def _sparse(array: NDArray[Any], wide: Wide, _mean: float, _spread: float, rng: np.random.Generator) -> Wide:
    """Seven in eight values zero, chosen by the value, so that equal values are kept or dropped together."""
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").astype(np.uint64)
    odd = np.uint64(int(rng.integers(1, 1 << 62)) * 2 + 1)
    mixed = (bits + np.uint64(1)) * odd
    mixed ^= mixed >> np.uint64(29)
    return np.where((mixed * odd) >> np.uint64(61) == 0, wide, 0.0)


def _structured(_: NDArray[Any], wide: Wide, mean: float, spread: float, rng: np.random.Generator) -> Wide:
    """Saw teeth along the last axis, of another height and sign in each row: neighbours are nearly equal.

    Teeth are off centre: whole ones would cancel in a sum, and a correct one-by-one sum would leave but rounding.
    """
    columns = wide.shape[-1]
    rows = np.arange(wide.size // columns)
    height = (1 + rows % 7 / 7) * np.where(rows % 2, -1, 1)
    tooth = 4 * ((np.arange(columns) / columns + rng.uniform()) % 1.0) - 1
    ramp = np.asarray(mean + spread * (height[:, None] * tooth).reshape(wide.shape), np.float64)
    if wide.ndim >= 2 and wide.shape[-1] == wide.shape[-2] and np.array_equal(wide, np.swapaxes(wide, -1, -2)):
        ramp = np.asarray((ramp + np.swapaxes(ramp, -1, -2)) / 2)
    return ramp


_FLOATS: dict[str, Callable[[NDArray[Any], Wide, float, float, np.random.Generator], Wide]] = {
    "heavy_tailed": _heavy_tailed,
    "shifted": _shifted,
    "sparse": _sparse,
    "structured": _structured,
}


def _skewed(flat: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Few of the drawn values take most places."""
    return rng.permutation(flat)[(flat.size * rng.random(flat.size) ** 6).astype(np.int64)]


def _nearly_constant(flat: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """One of the drawn values nearly everywhere."""
    return np.where(rng.random(flat.size) < 1 / 64, flat, flat[rng.integers(flat.size)])


def _runs(flat: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """The drawn values in rising order, from a random one on: long runs of equal neighbours."""
    return np.roll(np.sort(flat), int(rng.integers(flat.size)))


_CHOICES: dict[str, Callable[[NDArray[Any], np.random.Generator], NDArray[Any]]] = {
    "heavy_tailed": _skewed,
    "shifted": lambda flat, rng: rng.permutation(flat),
    "sparse": _nearly_constant,
    "structured": _runs,
}
_BOOLS: dict[str, Callable[[NDArray[Any], np.random.Generator], NDArray[Any]]] = {
    "heavy_tailed": lambda array, rng: rng.random(array.shape) < 0.1,
    "shifted": lambda array, rng: rng.random(array.shape) < 0.9,
    "sparse": lambda array, rng: rng.random(array.shape) < 0.01,
    "structured": lambda array, rng: np.roll(np.sort(array.reshape(-1)), int(rng.integers(array.size))).reshape(
        array.shape
    ),
}


def _is_sorted(array: NDArray[Any]) -> bool:
    """A vector in rising order, such as offsets, edges or positions."""
    return array.ndim == 1 and array.size > 2 and bool((array[1:] >= array[:-1]).all())


def has_few_values(array: NDArray[Any]) -> bool:
    """Whether the values look like a choice out of few, such as labels."""
    sample = array.reshape(-1)[: 1 << 14]
    return sample.size >= 4 * FEW and np.unique(sample).size <= FEW


Change: TypeAlias = Literal["none", "shrink", "roll"]


def change_for(array: NDArray[Any]) -> Change:
    """In which way the judge may change an array in secret: scale every float by itself, move other elements about, or
    not at all (sorted vectors may be offsets or a grid)."""
    flat = array.reshape(-1)
    if flat.size < 1 or (flat.size > 1 and bool(np.all(flat[1:] >= flat[:-1]))):
        return "none"
    return "shrink" if array.dtype in FLOATS and not has_few_values(array) else "roll"
