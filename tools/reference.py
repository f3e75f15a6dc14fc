"""The trusted side of a task: draws inputs, gives expected values. Runs user code, so only in the service process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools.contract import Signature
from tools.task import TaskSource, WorkloadSpec

Array: TypeAlias = NDArray[np.generic]
Value: TypeAlias = Array | int | float | bool
Inputs: TypeAlias = dict[str, Value]
"""Name to array (any shape, `()` too), or a Python scalar for a `contract.Scalar`, in the signature's order."""
Outputs: TypeAlias = dict[str, Array]


class Reference:
    """A loaded reference: signature known, input distributions probed. Workloads are indices into `source.workloads`."""

    source: TaskSource
    workloads: tuple[WorkloadSpec, ...]
    distributions: tuple[str, ...]
    """Usable distributions, "given" first; those under which the reference is not finite are left out and noted."""
    notes: tuple[str, ...]
    """What a person should know: dropped distributions, overrides in force, a missing float64 oracle."""

    def draw(self, workload: int, rng_seed: int, distribution: str = "given") -> Inputs:
        """Inputs made from `rng_seed` alone: equal seeds give equal content. C-contiguous arrays of the signature's
        shapes and dtypes. Raises TaskError("raised"|"shapes"|"too_large")."""
        raise NotImplementedError

    def baseline(self, workload: int, inputs: Inputs) -> Outputs:
        """The reference in its own dtypes on a private copy of nothing: it must not change `inputs`."""
        raise NotImplementedError

    def baseline_call(self, workload: int, inputs: Inputs) -> Callable[[], object]:
        """The reference's own work alone, ready to be timed: conversions are done before, checks are left out."""
        raise NotImplementedError

    def oracle(self, workload: int, inputs: Inputs) -> Outputs | None:
        """The reference with every floating input widened to float64; None where it can't run so."""
        raise NotImplementedError

    def noise(self, workload: int, inputs: Inputs) -> Outputs | None:
        """How far the oracle's outputs move (float64, >= 0) when each floating input is perturbed by about one
        rounding of its own dtype: what no kernel can do better than. For `numerics.compare(noise=...)`; it keeps
        results of heavy cancellation from failing correct kernels. Costs one more oracle run."""
        raise NotImplementedError

    def signature(self, workload: int) -> Signature:
        """Names, dtypes and shapes of inputs and outputs."""
        raise NotImplementedError

    def flops(self, workload: int, inputs: Inputs) -> float | None:
        """Arithmetic operations of one call, or None when the task doesn't say."""
        raise NotImplementedError

    def bytes_moved(self, workload: int, inputs: Inputs) -> float:
        """Fewest bytes of one call: the task's word, else inputs read once plus outputs written once."""
        raise NotImplementedError


def load_reference(source: TaskSource) -> Reference:
    """Execute the task's reference file and probe it on every workload.

    Raises TaskError: "not_python", "not_a_task", "raised" (with the user's own line), "not_finite", "shapes",
    "too_large" (estimated before allocating where possible), or "missing" when it needs torch and there is none.
    """
    raise NotImplementedError
