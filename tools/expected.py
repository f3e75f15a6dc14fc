"""The right answer to some inputs: asked on the device where it is there and settles the matter, else on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.numerics import Check, compare, share_of_granted
from tools.records import Policy
from tools.reference import Inputs, Outputs, Reference


class Expected:
    """What the reference makes of the inputs, on demand and then kept."""

    def __init__(self, reference: Reference, workload: int, inputs: Inputs, policy: Policy) -> None:
        self._reference, self._workload, self._inputs = reference, workload, inputs
        self._policy: Policy = policy
        self._near = reference.near(workload, inputs)
        self._own: Outputs | None = None
        self._exact: Outputs | None = None
        self._noise: Outputs | None = None

    def work_out(self) -> None:
        """Make the values on the host now that a right answer is compared with."""
        if self._oracle() is None:
            self._baseline()

    def check(self, actual: Mapping[str, NDArray[Any]], *, brief: bool = False) -> Check:
        """Compare a kernel's outputs with it. A `brief` check that fails tells one wrong element only.

        The cost of the baseline's own error and of the input-noise bound is paid only where what is granted in any
        case is not enough: they can only widen tolerances.
        """
        worst = self._near.worst(actual, self._policy) if self._near is not None else None
        if worst is not None:
            return Check(ok=True, worst=worst)
        oracle = self._oracle()
        granted = share_of_granted(actual, oracle, self._policy) if oracle is not None else None
        if granted is not None and granted <= 1:
            return Check(ok=True, worst=granted)
        baseline = self._baseline()
        actual = {name: _as_bool(value, baseline[name]) for name, value in actual.items()}
        check = compare(actual, oracle, baseline, self._policy, brief=brief or oracle is not None)
        if check.ok or oracle is None:
            return check
        if self._noise is None:
            self._noise = self._reference.noise(self._workload, self._inputs, oracle)
        return compare(actual, oracle, baseline, self._policy, noise=self._noise, brief=brief)

    def _oracle(self) -> Outputs | None:
        if self._exact is None:
            self._exact = self._reference.oracle(self._workload, self._inputs)
        return self._exact

    def _baseline(self) -> Outputs:
        if self._own is None:
            self._own = self._reference.baseline(self._workload, self._inputs)
        return self._own


def _as_bool(actual: NDArray[Any], expected: NDArray[Any]) -> NDArray[Any]:
    """A bool output out of its bytes: a byte that is neither 0 nor 1 (poison, say) becomes a wrong value."""
    if actual.dtype != np.bool_:
        return actual
    raw = actual.view(np.uint8)
    return np.where(raw > 1, ~expected.astype(np.bool_), raw == 1)
