"""Input content that nobody but the judge knows, and what the right answer to it is."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.ahead import KEPT, Ahead, Drawn, Wanted
from tools.buffers import Changeable, WorkloadBuffers
from tools.distributions import change_for
from tools.errors import TaskError
from tools.expected import Expected
from tools.numerics import Check
from tools.records import Policy
from tools.reference import Inputs, Reference
from tools.tasks.values import all_finite

SLOW_DRAW = 0.1
"""Seconds of drawing above which timed calls get recycled content with secret changes."""
POOL = 2
"""Draws kept for recycling."""
PATCHES = 96
"""Places of each array of integers or choices where a recycled draw holds another of its elements."""
BLOCK = 1 << 20
"""Elements changed at a time."""


@dataclass
class Content:
    """Inputs of one workload as they stand in the shared arena, with the right answer made on demand.

    Valid until the next content of the same workload is written.
    """

    reference: Reference
    workload: int
    distribution: str
    made: Inputs | Callable[[], Inputs]
    """The inputs, or how to learn them."""
    policy: Policy
    _expected: Expected | None = None

    @property
    def inputs(self) -> Inputs:
        if callable(self.made):
            self.made = self.made()
        return self.made

    def check(self, actual: Mapping[str, NDArray[Any]], *, brief: bool = False) -> Check:
        """Compare a kernel's outputs with the right answer; see `Expected.check`."""
        if self._expected is None:
            self._expected = Expected(self.reference, self.workload, self.inputs, self.policy)
        return self._expected.check(actual, brief=brief)

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
        self._can_change: dict[int, bool] = {}
        self._pools: dict[int, list[Inputs]] = {}
        self._kept: dict[int, list[Changeable]] = {}
        self._not_kept: set[int] = set()
        self._drawing = threading.Lock()
        self._ahead = Ahead(self._made_ahead)

    def draw_ahead(self, wanted: Sequence[Wanted]) -> None:
        """Begin to draw what `fresh` will be asked for in this order, and then what `timed` will keep, with the right
        answers: while a compiler runs. Not where that would take cores that kernels are timed on, nor what a GPU makes.
        """
        if self._reference.source.kind == "numpy" and all(each.keeps_content for each in self._buffers):
            kept = [(workload, KEPT) for workload in range(len(self._buffers)) for _ in range(POOL)]
            self._ahead.begin([*wanted, *kept])

    def drawn_beside(self, workload: int) -> Inputs:
        """A draw for a thread of the judge's own, while the judge's first thread runs none of the task's code."""
        with self._drawing:
            return self._reference.draw(workload, secrets.randbits(63))

    def _made_ahead(self, wanted: Wanted) -> Drawn:
        workload, distribution = wanted
        given = "given" if distribution == KEPT else distribution
        with self._drawing:
            inputs = self._reference.draw(workload, secrets.randbits(63), given)
            if distribution == KEPT:
                return Drawn(inputs, None)
            expected = Expected(self._reference, workload, inputs, self._policy)
            expected.work_out()
        return Drawn(inputs, expected)

    def fresh(self, workload: int, distribution: str = "given") -> Content:
        """A new draw, written to the arena."""
        ready = self._ahead.take((workload, distribution))
        if ready is not None:
            return self._write(workload, distribution, ready.inputs, ready.expected)
        begin = time.perf_counter()
        inputs = self._reference.draw(workload, secrets.randbits(63), distribution)
        self._draw_seconds[workload] = time.perf_counter() - begin
        if self._draw_seconds[workload] > SLOW_DRAW and workload not in self._can_change:
            self._can_change[workload] = self._stands_a_change(workload, inputs)
        return self._write(workload, distribution, inputs)

    def timed(self, workload: int) -> Content:
        """Content for one timed call: an older draw with secret changes where the device makes them or drawing is slow,
        else a new draw."""
        self._ahead.join()
        changed = self._changed_there(workload) if self._can_change.get(workload, True) else None
        if changed is not None:
            return Content(self._reference, workload, "given", changed, self._policy)
        if not self.recycles(workload):
            return self.fresh(workload)
        pool = self._pools.setdefault(workload, [])
        if len(pool) < POOL:
            pool.append(self._reference.draw(workload, secrets.randbits(63), "given"))
            chosen = pool[-1]
        else:
            chosen = _changed_in_secret(secrets.choice(pool))
        return self._write(workload, "given", chosen)

    def _changed_there(self, workload: int) -> Callable[[], Inputs] | None:
        """Draws that the device keeps and changes; None where it does not. `POOL` of them serve one evaluation."""
        if not self._buffers[workload].keeps_content or workload in self._not_kept:
            return None
        kept = self._kept.setdefault(workload, [])
        if len(kept) >= POOL:
            return secrets.choice(kept).write_changed()
        ready = self._ahead.take((workload, KEPT))
        drawn = ready.inputs if ready is not None else self._reference.draw(workload, secrets.randbits(63), "given")
        changeable = self._buffers[workload].changeable(drawn)
        if changeable is None:
            self._not_kept.add(workload)
            return None
        kept.append(changeable)
        if workload not in self._can_change:
            self._can_change[workload] = self._stands_a_change(workload, drawn)
        return changeable.write_changed() if self._can_change[workload] else None

    def recycles(self, workload: int) -> bool:
        """Whether timed calls of the workload get recycled content."""
        if self._kept.get(workload):
            return self._can_change.get(workload, False)
        return self._draw_seconds[workload] > SLOW_DRAW and self._can_change.get(workload, False)

    def _stands_a_change(self, workload: int, inputs: Inputs) -> bool:
        """Whether the reference takes changed inputs; a Cholesky factorisation, say, does not."""
        changed = _changed_in_secret(inputs)
        try:
            with np.errstate(all="ignore"):
                return all_finite(self._reference.baseline(workload, changed))
        except TaskError:
            return False

    def forget(self) -> None:
        """Give the recycled draws' memory back."""
        self._reference.forget()
        self._pools.clear()
        for changeable in (each for kept in self._kept.values() for each in kept):
            changeable.close()
        self._kept.clear()
        self._ahead.forget()

    def _write(self, workload: int, distribution: str, inputs: Inputs, expected: Expected | None = None) -> Content:
        self._buffers[workload].write(inputs)
        return Content(self._reference, workload, distribution, inputs, self._policy, expected)


def _changed_in_secret(inputs: Inputs) -> Inputs:
    """Copies with every array changed within what it already holds, so that no remembered result can be patched up.

    Floats shrink by a secret function of their own value: equal ones stay equal (a symmetric matrix symmetric), zeros
    stay zeros. Other elements move by a secret distance, and some become copies of others, unless all are distinct (a
    permutation). Sorted vectors, perhaps offsets or a grid, are left alone.
    """
    rng = np.random.default_rng(secrets.randbits(64))
    return {
        name: _changed(value, rng) if isinstance(value, np.ndarray) and value.size else value
        for name, value in inputs.items()
    }


def _changed(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    flat, change = array.reshape(-1), change_for(array)
    if change == "none":
        return array
    if change == "shrink":
        key = int(rng.integers(1 << 62)) * 2 + 1
        changed = np.empty_like(flat)
        for start in range(0, flat.size, BLOCK):
            changed[start : start + BLOCK] = _shrunk(flat[start : start + BLOCK], key)
        return changed.reshape(array.shape)
    changed = np.roll(flat, int(rng.integers(flat.size)))
    if np.unique(flat).size < flat.size:
        places = rng.integers(0, flat.size, size=min(PATCHES, flat.size))
        changed[places] = flat[rng.integers(0, flat.size, size=places.size)]
    return changed.reshape(array.shape)


def _shrunk(values: NDArray[Any], key: int) -> NDArray[Any]:
    """Each value times a factor from 1/2 to 1 that its own bits and the key decide."""
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").astype(np.uint64)
    mixed = (bits + np.uint64(1)) * np.uint64(key)
    mixed ^= mixed >> np.uint64(29)
    factor = 0.5 + ((mixed * np.uint64(key)) >> np.uint64(40)) * 2.0**-25
    return np.asarray((values.astype(np.float64) * factor).astype(values.dtype))
