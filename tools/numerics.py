"""What counts as the right answer: tolerances and comparison.

Not covered: whether the inputs were fair, which `tools.distributions` and `tools.audit` see to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.distributions import DISTRIBUTIONS
from tools.hardware import instruments
from tools.records import Mismatch, Policy
from tools.tasks.values import DTYPES, FLOATS

__all__ = ["DISTRIBUTIONS", "Check", "compare"]

BASELINE_FACTOR = 8.0
"""How much worse than the baseline's own error a kernel may be."""
NOISE_FACTOR = 16.0
"""How much worse than one rounding of the inputs a kernel may be."""
FLOOR: dict[str, float] = {"float64": 1e-11, "float32": 1.5e-4, "float16": 4e-3, "bfloat16": 3e-2}
"""Error allowed in any case, as a fraction of the slice's scale: room for a float32 sum of a few thousand equal terms
one by one, whose roundings add up; below what one rounding of the inputs to TF32 or half makes (up to 4.9e-4)."""
POLICY_FLOOR: dict[Policy, float] = {"strict": 0.0, "tf32": 4e-3, "mixed": 3e-2}
POLICY_BITS: dict[Policy, int] = {"tf32": 11, "mixed": 8}
"""Significant bits of the shortest format that operands may be rounded to."""
POLICY_NOISE = 2.0 / NOISE_FACTOR
"""Of what such a rounding of the inputs does to the outputs, the part that counts as noise: a kernel may be twice as
bad. With it alone products of operands rounded to bfloat16 don't pass as TF32, nor zeros where much cancels."""
CAP = 0.25
"""However bad the baseline, its error widens no tolerance beyond this fraction of the scale, so zeros fail."""
QUIET = 1e-3
"""A slice counts as at least this fraction of the whole output's scale: exact zero is not asked of quiet slices."""
SHORTEST, LONGEST, BLOCK = 64, 4096, 1 << 20
"""Elements of a slice at least and at most, and elements compared at a time."""

Arrays = Mapping[str, NDArray[Any]]
Wide = NDArray[np.float64]


@dataclass(frozen=True)
class Check:
    """Outcome of one comparison over all outputs of a call. The fields from `output` on are empty when `ok`."""

    ok: bool
    worst: float
    """Largest error / tolerance over all elements: at most 1 when ok; 0 for exact outputs; inf when not comparable."""
    output: str = ""
    index: tuple[int, ...] = ()
    expected: str = ""
    actual: str = ""
    error: float | None = None
    tolerance: float | None = None
    wrong: int = 0
    total: int = 0
    worst_slice: str = ""

    def mismatch(self, workload: str, distribution: str) -> Mismatch:
        """This failure as a record. Only for a check that is not ok."""
        return Mismatch(
            workload=workload,
            distribution=distribution,
            output=self.output,
            index=self.index,
            expected=self.expected,
            actual=self.actual,
            error=self.error,
            tolerance=self.tolerance,
            wrong=self.wrong,
            total=self.total,
            worst_slice=self.worst_slice,
        )


def granted(dtype: np.dtype[Any], policy: Policy) -> float:
    """Error allowed in any case in a floating output, as a fraction of its slice's scale."""
    return max(FLOOR[DTYPES[dtype]], POLICY_FLOOR[policy])


def compare(
    actual: Arrays,
    expected64: Arrays | None,
    baseline: Arrays,
    policy: Policy,
    *,
    noise: Arrays | None = None,
    brief: bool = False,
) -> Check:
    """Compare `actual` with the float64 oracle (`None`: with the baseline); all have equal names and shapes.

    Floats: error <= max(BASELINE_FACTOR x the baseline's own error, FLOOR x scale, NOISE_FACTOR x `noise`), each
    taken over a slice (whole rows of the last axes, 64 to 4096 elements), scale being the slice's root mean square or
    the element itself; NaN and infinities must stand where the oracle or the baseline has them. Integers and bool must
    equal the baseline or the oracle. Reports the first output that is wrong; where `brief`, it looks no further than
    the first block with a wrong element, so that only `ok` and the element's own fields say something.
    """
    worst = 0.0
    for name, own in baseline.items():
        check = _compare_one(
            _Output(
                name,
                np.asarray(actual[name]),
                own if expected64 is None else expected64[name],
                own,
                None if noise is None else noise[name],
            ),
            policy,
            brief=brief,
        )
        if not check.ok:
            return check
        worst = max(worst, check.worst)
    return Check(ok=True, worst=worst)


def share_of_granted(actual: Arrays, expected64: Arrays, policy: Policy) -> float | None:
    """The largest error as a share of FLOOR x scale, which `compare` grants whatever the baseline's own error is; None
    where that can't be said at once: of other types than float32 and float64."""
    worst = 0.0
    for name, oracle in expected64.items():
        value = np.asarray(actual[name])
        if oracle.size == 0:
            continue
        if value.dtype not in (np.float32, np.float64) or value.shape != oracle.shape:
            return None
        floor = granted(value.dtype, policy)
        share = instruments().share_of_floor(value, oracle, Slices(oracle.shape).length, floor, QUIET)
        if share is None:
            return None
        worst = max(worst, share)
    return worst


@dataclass(frozen=True)
class _Output:
    """Everything that is known of one output, all of one shape."""

    name: str
    actual: NDArray[Any]
    oracle: NDArray[Any]
    own: NDArray[Any]
    """The baseline's."""
    noise: NDArray[Any] | None


def _compare_one(output: _Output, policy: Policy, *, brief: bool) -> Check:
    actual, own = output.actual, output.own
    if actual.shape != own.shape or actual.dtype != own.dtype:
        raise ValueError(f"`{output.name}` is {actual.dtype}{actual.shape}, not {own.dtype}{own.shape}")
    if own.size == 0:
        return Check(ok=True, worst=0.0)
    if own.dtype not in FLOATS:
        return _exact(output)
    slices = Slices(own.shape)
    floor = granted(own.dtype, policy)
    share = instruments().share_of_floor(actual, output.oracle, slices.length, floor, QUIET)
    if share is not None and share <= 1:  # within what is granted in any case: the baseline's error need not be known
        return Check(ok=True, worst=share)
    quiet = QUIET * _rms_of_all(output.oracle)
    worst, wrong_count, worst_at, worst_share = 0.0, 0, 0, -1.0
    first: Check | None = None
    for start in range(0, own.size, slices.block):
        size = min(slices.block, own.size - start)
        error, tolerance, wrong = _judged(output, slices, start, floor, quiet)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(wrong & ~np.isfinite(error), np.inf, np.where(error > 0, error / tolerance, 0.0))
        highest = float(ratio.max())
        worst = max(worst, highest)
        places = np.flatnonzero(wrong.reshape(-1)[:size])
        if not places.size:
            continue
        wrong_count += int(places.size)
        first = first or _failure(output, start + int(places[0]), error.flat[places[0]], tolerance.flat[places[0]])
        if highest > worst_share:
            worst_share, worst_at = highest, start + int(ratio.argmax()) // slices.length * slices.length
        if brief:
            break
    if first is None:
        return Check(ok=True, worst=worst)
    return replace(first, worst=worst, wrong=wrong_count, worst_slice=slices.describe(output, worst_at))


def _judged(
    output: _Output, slices: Slices, start: int, floor: float, quiet: float
) -> tuple[Wide, Wide, NDArray[np.bool_]]:
    """Error, tolerance and verdict for the elements of a block of slices, one slice a row."""
    actual, oracle, own = (slices.block_of(a, start) for a in (output.actual, output.oracle, output.own))
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = oracle.astype(output.own.dtype).astype(np.float64)
        error = np.abs(actual - oracle)
        finite = np.isfinite(rounded)
        magnitude = np.where(finite, np.abs(oracle), 0.0)
        scale = np.maximum(magnitude, np.maximum(_rms(magnitude), quiet))
        own_error = np.where(finite & np.isfinite(own), np.abs(own - oracle), 0.0)
        tolerance = np.maximum(floor * scale, BASELINE_FACTOR * _largest(own_error))
        tolerance = np.minimum(tolerance, CAP * scale) + _TINY[DTYPES[output.own.dtype]]
        if output.noise is not None:
            noise = slices.block_of(output.noise, start)
            tolerance = np.maximum(tolerance, NOISE_FACTOR * _largest(np.where(np.isfinite(noise), noise, 0.0)))
    same = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
    same |= ~np.isfinite(own) & ((actual == own) | (np.isnan(actual) & np.isnan(own)))
    close = finite & np.isfinite(actual) & (error <= tolerance)
    return np.where(same, 0.0, error), tolerance, ~(same | close)


_TINY: dict[str, float] = {"float64": 1e-305, "float32": 1e-36, "float16": 1e-6, "bfloat16": 1e-36}
"""About the smallest normal number: results flushed to zero are not errors."""


def _rms(rows: Wide) -> Wide:
    """Root mean square of each row, as a column; scaled first, so that squares do not overflow."""
    peak = np.maximum(_largest(rows), 1e-300)
    return np.asarray(peak * np.sqrt(np.mean((rows / peak) ** 2, axis=1, keepdims=True)))


def _largest(rows: Wide) -> Wide:
    return np.asarray(rows.max(axis=1, keepdims=True))


def _rms_of_all(array: NDArray[Any]) -> float:
    flat = array.reshape(-1)
    total = 0.0
    for start in range(0, flat.size, BLOCK):
        part = flat[start : start + BLOCK].astype(np.float64, copy=False)
        squares = float(np.dot(part, part))
        if not math.isfinite(squares):
            part = part[np.isfinite(part)]
            squares = float(np.dot(part, part))
        total += squares
    return math.sqrt(total / flat.size) if math.isfinite(total) else 0.0


class Slices:
    """How an output of some shape is cut: rows of its last axes, merged when short and cut when long."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.size = math.prod(shape)
        length, axis = 1, len(shape)
        while axis and length < SHORTEST:
            axis -= 1
            length *= shape[axis]
        if length > LONGEST:
            length = next((n for n in range(LONGEST, SHORTEST - 1, -1) if length % n == 0), LONGEST)
        self.length = min(length, self.size)
        self.block = max(BLOCK // self.length, 1) * self.length

    def block_of(self, array: NDArray[Any], start: int) -> Wide:
        """Elements from `start` on in float64, one slice a row; a short last slice repeats its last element."""
        flat = np.asarray(array).reshape(-1)[start : start + self.block].astype(np.float64)
        if flat.size % self.length:
            flat = np.concatenate([flat, np.repeat(flat[-1:], self.length - flat.size % self.length)])
        return flat.reshape(-1, self.length)

    def describe(self, output: _Output, start: int) -> str:
        """The slice at `start` in words, with the size of its error against its own scale."""
        end = min(start + self.length, self.size)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = output.oracle.reshape(-1)[start:end].astype(np.float64)
            error = np.abs(output.actual.reshape(-1)[start:end].astype(np.float64) - expected)
            scale = float(np.sqrt(np.mean(np.square(expected))))
        share = f", largest error {float(error.max()) / scale:.2g} of its scale {scale:.3g}" if scale > 0 else ""
        return f"{output.name}{_at(self.shape, start)}..{_at(self.shape, end - 1)}{share}"


def _at(shape: tuple[int, ...], flat: int) -> str:
    return str([int(i) for i in np.unravel_index(flat, shape)]) if shape else "[]"


def _failure(output: _Output, place: int, error: float, tolerance: float) -> Check:
    shape = output.own.shape
    return Check(
        ok=False,
        worst=math.inf,
        output=output.name,
        index=tuple(int(i) for i in np.unravel_index(place, shape)) if shape else (),
        expected=_text(output.oracle.reshape(-1)[place]),
        actual=_text(output.actual.reshape(-1)[place]),
        error=float(error) if math.isfinite(error) else None,
        tolerance=float(tolerance) if math.isfinite(error) else None,
        total=output.own.size,
    )


def _exact(output: _Output) -> Check:
    own = output.own
    wrong = (output.actual != own) & (output.actual != output.oracle)
    places = np.flatnonzero(wrong.reshape(-1))
    if not places.size:
        return Check(ok=True, worst=0.0)
    slices = Slices(own.shape)
    counts = np.bincount(places // slices.length)
    start = int(counts.argmax()) * slices.length
    end = min(start + slices.length, own.size) - 1
    text = (
        f"{output.name}{_at(own.shape, start)}..{_at(own.shape, end)}, "
        f"{counts.max()} of {end - start + 1} elements wrong"
    )
    place = int(places[0])
    error = abs(float(output.actual.reshape(-1)[place]) - float(own.reshape(-1)[place]))
    return replace(_failure(output, place, error, 0.0), wrong=int(places.size), worst_slice=text)


def _text(value: np.generic) -> str:
    """A value as it would be typed, floats with the digits that tell float32 values apart."""
    return str(value) if isinstance(value, np.integer | np.bool_) else f"{float(value):.9g}"
