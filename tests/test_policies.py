"""What each numerics policy lets pass: operands rounded as it allows, on every distribution, and no shorter ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tools.numerics import compare
from tools.records import Policy
from tools.reference import Reference, load_reference
from tools.task import read_task

GEMM = Path(__file__).parent / "tasks_adversary" / "gemm"
TF32, BFLOAT16 = 11, 8
SEEDS = range(10, 13)


def rounded(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """To the nearest number of so many significant bits."""
    dropped = 24 - bits
    half, mask = np.uint32(1 << (dropped - 1)), np.uint32(~((1 << dropped) - 1) & 0xFFFFFFFF)
    return ((values.view(np.uint32) + half) & mask).view(np.float32)


def passes(reference: Reference, policy: Policy, distribution: str, bits: int | None) -> list[bool]:
    """Whether the product of operands of so many bits passes, for each seed; None: zeros instead of a product."""
    found = []
    for seed in SEEDS:
        inputs = reference.draw(0, seed, distribution)
        oracle, baseline = reference.oracle(0, inputs), reference.baseline(0, inputs)
        left, right = (np.asarray(inputs[name]) for name in "ab")
        product = rounded(left, bits or 1) @ rounded(right, bits or 1) if bits else np.zeros_like(baseline["c"])
        noise = reference.noise(0, inputs, oracle)
        found.append(compare({"c": product}, oracle, baseline, policy, noise=noise).ok)
    return found


@pytest.mark.parametrize(
    ("policy", "allowed", "refused"), [("tf32", TF32, BFLOAT16), ("mixed", BFLOAT16, None)], ids=["tf32", "mixed"]
)
def test_a_policy_allows_its_own_rounding_everywhere_and_no_shorter_one(
    policy: Policy, allowed: int, refused: int | None
) -> None:
    reference = load_reference(read_task(GEMM).model_copy(update={"policy": policy}))
    assert "structured" in reference.distributions  # there the terms of a sum cancel
    for distribution in reference.distributions:
        assert all(passes(reference, policy, distribution, allowed)), distribution
        assert not any(passes(reference, policy, distribution, None)), distribution
    if refused is not None:
        assert not any(passes(reference, policy, "given", refused))
        assert not any(passes(reference, policy, "structured", refused))


def test_strict_allows_no_rounding_of_operands() -> None:
    reference = load_reference(read_task(GEMM))
    for distribution in ("given", "structured"):
        assert not any(passes(reference, "strict", distribution, TF32))
