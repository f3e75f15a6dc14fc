"""What counts as the right answer: input distributions, tolerances, comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.records import Mismatch, Policy

DISTRIBUTIONS = ("given", "heavy_tailed", "shifted", "sparse", "structured")


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
            workload=workload, distribution=distribution, output=self.output, index=self.index, expected=self.expected,
            actual=self.actual, error=self.error, tolerance=self.tolerance, wrong=self.wrong, total=self.total,
            worst_slice=self.worst_slice,
        )  # fmt: skip


def compare(
    actual: Mapping[str, NDArray[np.generic]],
    expected64: Mapping[str, NDArray[np.generic]] | None,
    baseline: Mapping[str, NDArray[np.generic]],
    policy: Policy,
    *,
    noise: Mapping[str, NDArray[np.generic]] | None = None,
) -> Check:
    """Compare `actual` outputs with the float64 oracle (`None`: with the baseline), all of equal names and shapes.

    Floats: error <= max(factor x the baseline's own error, floor of the dtype and policy x scale of the slice,
    factor x `noise`); NaN and infinities must stand where the oracle or the baseline has them. Integers and bool exact.
    """
    raise NotImplementedError
