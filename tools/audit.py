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
"""Calls under each distribution that a control must pass to refuse the task."""

SAMPLE = 1 << 20
"""Elements out of which the middle one is looked for, at least."""


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
    signatures = [reference.signature(workload) for workload in range(len(reference.workloads))]
    if not any(tensor.size for signature in signatures for tensor in signature.outputs):
        raise TaskError("degenerate", "No output has any element, so nothing has to be computed", "Return some.")
    inputs = reference.draw(0, seed)
    first, again = reference.baseline(0, inputs), reference.baseline(0, inputs)
    same = all(np.array_equal(again[name], value) for name, value in first.items())
    if not same and not compare(again, None, first, reference.source.policy, brief=True).ok:
        raise TaskError(
            "degenerate", "The reference gives different results for the same inputs", "Make it repeatable."
        )
    samples = _Samples(reference, seed)
    notes: list[str] = []
    for tensor in reference.signature(0).outputs:
        notes += _audit_output(reference, tensor.name, samples)
    return (*notes, *_without_influence(reference, samples.at(0), seed))


class _Samples:
    """Calls drawn when they are first asked for: one "given" call of each workload, then every distribution twice.

    Most controls fail at the first call, so most tasks pay for no more than that.
    """

    def __init__(self, reference: Reference, seed: int) -> None:
        self._reference = reference
        given = [(workload, seed, "given") for workload in range(len(reference.workloads))]
        smallest = reference.smallest
        self._plan = given + [
            (smallest, seed + i, name) for name in reference.distributions for i in range(1, DRAWS + 1)
        ]
        self._drawn: dict[int, _Sample] = {}

    def __len__(self) -> int:
        return len(self._plan)

    def at(self, index: int) -> _Sample:
        if index not in self._drawn:
            self._drawn = {index: _sample(self._reference, *self._plan[index])} | (
                {0: self._drawn[0]} if 0 in self._drawn else {}
            )
        return self._drawn[index]


def _sample(reference: Reference, workload: int, seed: int, distribution: str) -> _Sample:
    inputs = reference.draw(workload, seed, distribution)
    oracle = reference.oracle(workload, inputs)
    return _Sample(
        inputs=inputs,
        baseline=reference.baseline(workload, inputs),
        oracle=oracle,
        noise=reference.noise(workload, inputs, oracle),
        stale=reference.baseline(workload, reference.draw(workload, seed + DRAWS + 1, distribution)),
    )


def _audit_output(reference: Reference, name: str, samples: _Samples) -> list[str]:
    """Try to pass one output, the others being right. Raises TaskError("degenerate"); returns notes on near misses."""
    passed: dict[str, int] = {}
    tried = 0
    for index in range(len(samples)):
        sample = samples.at(index)
        if not sample.baseline[name].size:
            continue
        fakes = {what: fake for what, fake in _fakes(name, sample) if not tried or passed.get(what) == tried}
        tried += 1
        for what, fake in fakes.items():
            passed[what] = passed.get(what, 0) + _check(reference, sample, {**sample.baseline, name: fake}).ok
        if tried not in passed.values():
            break
    for what, count in passed.items():
        if count == tried:
            raise TaskError(
                "degenerate", f"{what} would pass as the output `{name}`", "Change the inputs or the output."
            )
    return [
        f"{what} would pass as the output `{name}` for some inputs; other distributions tell them apart"
        for what, count in passed.items()
        if count
    ]


def _fakes(name: str, sample: _Sample) -> Iterator[tuple[str, Array]]:
    real = sample.baseline[name]
    yield "zeros", np.zeros_like(real)
    if real.size > 1:  # a single number is always some constant: there the earlier call's result is the control
        some = real.reshape(-1)[:: max(real.size // SAMPLE, 1)]
        middle = np.median(some.astype(np.float64)) if real.dtype != np.bool_ else some.mean() > 0.5
        yield "a constant", np.full_like(real, middle)
    yield "the result of an earlier call", sample.stale[name]
    for given, value in sample.inputs.items():
        if isinstance(value, np.ndarray) and value.size == real.size and given != name:
            yield f"a copy of `{given}`", value.reshape(real.shape).astype(real.dtype)


def _check(reference: Reference, sample: _Sample, outputs: Outputs) -> Check:
    with np.errstate(all="ignore"):
        policy = reference.source.policy
        return compare(outputs, sample.oracle, sample.baseline, policy, noise=sample.noise, brief=True)


def _without_influence(reference: Reference, sample: _Sample, seed: int) -> Iterator[str]:
    """Inputs that can be exchanged for another seed's without any output noticing."""
    others = reference.draw(0, seed + DRAWS + 1)
    for name, value in sample.inputs.items():
        if isinstance(value, np.ndarray) and value.size and not np.array_equal(value, others[name]):
            mixed = {**sample.inputs, name: others[name]}
            if _check(reference, sample, reference.baseline(0, mixed)).ok:
                yield f"the input `{name}` has no influence on the result"
