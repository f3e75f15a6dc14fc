"""`tools.distributions.transform` for large arrays of floats, computed on the GPU: the same forms, not the same bits.

Not covered, and left to the host: small arrays, vectors (which may be sorted), integers and choices out of few values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tools.distributions import has_few_values
from tools.tasks.torch_reference import Place
from tools.tasks.values import FLOATS, Array

LARGE = 1 << 20
"""Elements from which an array is worth bringing to the device."""


def transformed(place: Place, name: str, array: Array, rng: np.random.Generator, *, signed: bool) -> Array | None:
    """`array` moved to the distribution `name`; None where the host does it."""
    if not place.on_gpu or array.size < LARGE or array.ndim < 2 or array.dtype not in FLOATS or has_few_values(array):
        return None
    torch = place.torch
    given = place.tensor(array)
    wide = given.double()
    occupied = wide != 0
    count = int(occupied.sum())
    if count == 0 or not bool(torch.isfinite(wide).all()):
        return array
    mean = float(wide.sum()) / count
    spread = (float(torch.where(occupied, wide - mean, 0.0).square().sum()) / count) ** 0.5
    if spread == 0:
        return array
    moved = torch.where(occupied, _FORMS[name](torch, given, wide, mean, spread, rng), 0.0)
    if not signed and float(wide.min()) >= 0:
        moved = moved.abs()
    bound = float(np.finfo(np.float32).max) if array.dtype.itemsize > 2 else 6e4
    found: Array = place.array(moved.clamp_(-bound, bound).to(given.dtype))
    return found


def _heavy_tailed(torch: Any, _: Any, wide: Any, mean: float, spread: float, rng: np.random.Generator) -> Any:
    steep = rng.uniform(1.3, 1.5)
    return spread * torch.sinh(steep * ((wide - mean) / spread).clamp_(-5, 5)) / steep


def _shifted(_torch: Any, _: Any, wide: Any, mean: float, spread: float, rng: np.random.Generator) -> Any:
    scale = rng.uniform(1.5, 2.5)
    return scale * (wide - mean) if abs(mean) > 0.5 * spread else wide + scale * 1.5 * spread


def _sparse(torch: Any, given: Any, wide: Any, _mean: float, _spread: float, rng: np.random.Generator) -> Any:
    """Chosen by the value's own bits, so that equal values are kept or dropped together."""
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[given.element_size()]
    odd = int(rng.integers(1, 1 << 62)) * 2 + 1
    mixed = (given.view(integers).long() + 1) * (odd - (1 << 64) if odd >= 1 << 63 else odd)
    mixed = (mixed ^ (mixed >> 29)) * 0x2545F4914F6CDD1D
    return torch.where((mixed >> 61) & 7 == 0, wide, 0.0)


def _structured(torch: Any, _: Any, wide: Any, mean: float, spread: float, rng: np.random.Generator) -> Any:
    columns = wide.shape[-1]
    rows = torch.arange(wide.numel() // columns, device=wide.device)
    height = (1 + (rows % 7).double() / 7) * torch.where(rows % 2 == 1, -1.0, 1.0).double()
    tooth = 4 * ((torch.arange(columns, device=wide.device).double() / columns + rng.uniform()) % 1.0) - 1
    ramp = mean + spread * (height[:, None] * tooth).reshape(wide.shape)
    if wide.shape[-1] == wide.shape[-2] and torch.equal(wide, wide.transpose(-1, -2)):
        ramp = (ramp + ramp.transpose(-1, -2)) / 2
    return ramp


_FORMS: dict[str, Callable[[Any, Any, Any, float, float, np.random.Generator], Any]] = {
    "heavy_tailed": _heavy_tailed,
    "shifted": _shifted,
    "sparse": _sparse,
    "structured": _structured,
}
