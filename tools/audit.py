"""Whether a task can be judged at all: refuses outputs that need no computation.

Negative controls: what a kernel that does nothing would leave (zeros, a constant, an input's content, another call's
result) goes through the real comparison; whatever passes it under every distribution and seed would pass for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tools.errors import TaskError
from tools.numerics import Check, compare
from tools.reference import Array, Inputs, Outputs, Reference

DRAWS = 2
"""Seeds for each distribution and workload."""


@dataclass(frozen=True)
class _Sample:
    """One call: what was given, what is expected, and what another seed would have given."""

    inputs: Inputs
    baseline: Outputs
    oracle: Outputs | None
    noise: Outputs | None
    stale: Outputs


def audit(reference: Reference, seed: int) -> tuple[str, ...]:
    """Notes about the task (an input without influence, ...).

    Raises TaskError("degenerate") when zeros, a constant, a copied input or another call's result would be accepted,
    or the reference is not deterministic; and what drawing or running raises.
    """
    samples = [
        _sample(reference, workload, seed + index, distribution)
        for workload in range(len(reference.workloads))
        for distribution in reference.distributions
        for index in range(DRAWS)
    ]
    first = samples[0]
    if not _check(reference, first, reference.baseline(0, first.inputs)).ok:
        raise TaskError(
            "degenerate", "The reference gives different results for the same inputs", "Make it repeatable."
        )
    notes: list[str] = []
    for tensor in reference.signature(0).outputs:
        notes += _audit_output(reference, tensor.name, samples)
    return (*notes, *_without_influence(reference, seed))


def _sample(reference: Reference, workload: int, seed: int, distribution: str) -> _Sample:
    inputs = reference.draw(workload, seed, distribution)
    oracle = reference.oracle(workload, inputs)
    return _Sample(
        inputs=inputs,
        baseline=reference.baseline(workload, inputs),
        oracle=oracle,
        noise=reference.noise(workload, inputs, oracle),
        stale=reference.baseline(workload, reference.draw(workload, seed + DRAWS, distribution)),
    )


def _audit_output(reference: Reference, name: str, samples: list[_Sample]) -> list[str]:
    """Try to pass one output, the others being right. Raises TaskError("degenerate"); returns notes on near misses."""
    passed: dict[str, int] = {}
    tried: dict[str, int] = {}
    counted = [sample for sample in samples if sample.baseline[name].size]
    for sample in counted:
        for what, fake in _fakes(name, sample):
            tried[what] = tried.get(what, 0) + 1
            passed[what] = passed.get(what, 0) + _check(reference, sample, {**sample.baseline, name: fake}).ok
    for what, count in passed.items():
        if count == len(counted):
            raise TaskError(
                "degenerate", f"{what} would pass as the output `{name}`", "Change the inputs or the output."
            )
    return [
        f"{what} would pass as the output `{name}` in {count} of {tried[what]} draws; the others tell them apart"
        for what, count in passed.items()
        if count
    ]


def _fakes(name: str, sample: _Sample) -> Iterator[tuple[str, Array]]:
    real = sample.baseline[name]
    yield "zeros", np.zeros_like(real)
    if real.size > 1:  # a single number is always some constant: there the earlier call's result is the control
        middle = np.median(real.astype(np.float64)) if real.dtype != np.bool_ else real.mean() > 0.5
        yield "a constant", np.full_like(real, middle)
    yield "the result of an earlier call", sample.stale[name]
    for given, value in sample.inputs.items():
        if isinstance(value, np.ndarray) and value.size == real.size and given != name:
            yield f"a copy of `{given}`", value.reshape(real.shape).astype(real.dtype)


def _check(reference: Reference, sample: _Sample, outputs: Outputs) -> Check:
    with np.errstate(all="ignore"):
        return compare(outputs, sample.oracle, sample.baseline, reference.source.policy, noise=sample.noise)


def _without_influence(reference: Reference, seed: int) -> Iterator[str]:
    """Inputs that can be exchanged for another seed's without any output noticing."""
    sample = _sample(reference, 0, seed, "given")
    others = reference.draw(0, seed + DRAWS)
    for name, value in sample.inputs.items():
        if isinstance(value, np.ndarray) and value.size and not np.array_equal(value, others[name]):
            mixed = {**sample.inputs, name: others[name]}
            if _check(reference, sample, reference.baseline(0, mixed)).ok:
                yield f"the input `{name}` has no influence on the result"
