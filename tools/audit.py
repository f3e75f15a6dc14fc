"""Whether a task can be judged at all: refuses outputs that need no computation."""

from __future__ import annotations

from tools.reference import Reference


def audit(reference: Reference, seed: int) -> tuple[str, ...]:
    """Notes about the task (an input without influence, ...); raises TaskError("degenerate" | "not_finite" | "raised")
    when zeros, a constant, a copied input, the last call's output or another seed's output would be accepted."""
    raise NotImplementedError
