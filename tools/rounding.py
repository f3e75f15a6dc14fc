"""Arrays as errors of rounding leave them: of random signs, or as rounding itself makes them."""

from __future__ import annotations

import numpy as np

from tools.tasks.values import DTYPES, FLOATS, Array, Value


def jittered(value: Value, rng: np.random.Generator, most: int | None) -> Value:
    """A floating array in float64, each element moved by half a unit in the last place of its own dtype, or of one with
    `most` significant bits."""
    if not isinstance(value, np.ndarray) or value.dtype not in FLOATS:
        return value
    bits = _bits(value, most)
    signs = 2.0 * rng.integers(0, 2, value.shape, dtype=np.int8) - 1.0
    return np.asarray(value.astype(np.float64) * (1 + signs * 2.0**-bits))


def rounded(value: Value, rng: np.random.Generator, most: int | None) -> Value:
    """A floating array in float64, rounded to `most` significant bits or to those of its own dtype."""
    del rng
    if not isinstance(value, np.ndarray) or value.dtype not in FLOATS:
        return value
    scale = 2.0 ** _bits(value, most)
    fraction, exponent = np.frexp(value.astype(np.float64))
    return np.asarray(np.ldexp(np.rint(fraction * scale) / scale, exponent))


def _bits(value: Array, most: int | None) -> int:
    """Significant ones."""
    bits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[DTYPES[value.dtype]]
    return bits if most is None else min(bits, most)
