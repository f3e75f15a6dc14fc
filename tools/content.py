"""Input content that nobody but the judge knows, and what the right answer to it is."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.buffers import WorkloadBuffers
from tools.numerics import Check, compare
from tools.records import Policy
from tools.reference import Inputs, Outputs, Reference

SLOW_DRAW = 0.1
"""Seconds of drawing above which timed calls get recycled content with secret changes."""
POOL = 3
"""Draws kept for recycling."""
PATCHES = 96
"""Places of each input that a recycled draw changes."""


@dataclass
class Content:
    """Inputs of one workload as they stand in the shared arena, with the right answer made on demand.

    Valid until the next content of the same workload is written.
    """

    reference: Reference
    workload: int
    distribution: str
    inputs: Inputs
    policy: Policy
    _baseline: Outputs | None = None
    _oracle: Outputs | None = None
    _asked: bool = field(default=False)

    def check(self, actual: Mapping[str, NDArray[Any]]) -> Check:
        """Compare a kernel's outputs with the right answer. The cost of the input-noise bound is paid on failure only:
        it can only widen tolerances."""
        if not self._asked:
            self._baseline = self.reference.baseline(self.workload, self.inputs)
            self._oracle = self.reference.oracle(self.workload, self.inputs)
            self._asked = True
        assert self._baseline is not None
        actual = {name: _as_bool(value, self._baseline[name]) for name, value in actual.items()}
        check = compare(actual, self._oracle, self._baseline, self.policy)
        if check.ok or self._oracle is None:
            return check
        noise = self.reference.noise(self.workload, self.inputs, self._oracle)
        return compare(actual, self._oracle, self._baseline, self.policy, noise=noise)

    @property
    def name(self) -> str:
        return self.reference.workloads[self.workload].name


class ContentSource:
    """Draws content with secret seeds into the arenas that all workers share."""

    def __init__(self, reference: Reference, buffers: Sequence[WorkloadBuffers], policy: Policy) -> None:
        self._reference = reference
        self._buffers = buffers
        self._policy: Policy = policy
        self._draw_seconds = [0.0] * len(buffers)
        self._pools: dict[int, list[Inputs]] = {}

    def fresh(self, workload: int, distribution: str = "given") -> Content:
        """A new draw, written to the arena."""
        begin = time.perf_counter()
        inputs = self._reference.draw(workload, secrets.randbits(63), distribution)
        self._draw_seconds[workload] = time.perf_counter() - begin
        return self._write(workload, distribution, inputs)

    def timed(self, workload: int) -> Content:
        """Content for one timed call: a new draw, or where drawing is slow an older one with secret changes."""
        if not self.recycles(workload):
            return self.fresh(workload)
        pool = self._pools.setdefault(workload, [])
        if len(pool) < POOL:
            pool.append(self._reference.draw(workload, secrets.randbits(63), "given"))
            chosen = pool[-1]
        else:
            chosen = secrets.choice(pool)
            _change_in_secret(chosen)
        return self._write(workload, "given", chosen)

    def recycles(self, workload: int) -> bool:
        """Whether timed calls of the workload get recycled content."""
        return self._draw_seconds[workload] > SLOW_DRAW

    def forget(self) -> None:
        """Give the recycled draws' memory back."""
        self._pools.clear()

    def _write(self, workload: int, distribution: str, inputs: Inputs) -> Content:
        self._buffers[workload].write(inputs)
        return Content(self._reference, workload, distribution, inputs, self._policy)


def _as_bool(actual: NDArray[Any], expected: NDArray[Any]) -> NDArray[Any]:
    """A bool output out of its bytes: a byte that is neither 0 nor 1 (poison, say) becomes a wrong value."""
    if actual.dtype != np.bool_:
        return actual
    raw = actual.view(np.uint8)
    return np.where(raw > 1, ~expected.astype(np.bool_), raw == 1)


def _change_in_secret(inputs: Inputs) -> None:
    """Change each array in place, within what the array already holds: all elements move by a secret distance, so that
    no remembered result can be patched up; then, at secret places, floats shrink by a random factor and other elements
    become a copy of another element of the same array (so that indices stay valid). Sorted arrays are left alone."""
    rng = np.random.default_rng(secrets.randbits(64))
    for value in inputs.values():
        if not isinstance(value, np.ndarray) or value.size == 0 or not value.flags.writeable:
            continue
        flat = value.reshape(-1)
        if flat.size > 1 and bool(np.all(flat[1:] >= flat[:-1])):  # sorted, perhaps for a reason: offsets, a grid
            continue
        flat[:] = np.roll(flat, int(rng.integers(flat.size)))
        places = rng.integers(0, flat.size, size=min(PATCHES, flat.size))
        if flat.dtype.kind in "iub":
            flat[places] = flat[rng.integers(0, flat.size, size=places.size)]
        else:
            flat[places] = (flat[places].astype(np.float64) * rng.uniform(0.25, 0.95, places.size)).astype(flat.dtype)
