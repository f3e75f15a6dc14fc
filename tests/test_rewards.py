"""What verdicts are worth: the steps at their borders, the continuous figure's bounds, and no reward for nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import rewards
from memory.runs import Attempt
from tools.records import Accepted, Interval, Rejected, StageReport, Unjudged, WorkloadTiming


def accepted(seconds: float, baseline: float = 1.0, limit: float = 0.01) -> Accepted:
    timing = WorkloadTiming(
        workload="default",
        weight=1.0,
        seconds=seconds,
        interval=Interval(low=seconds, high=seconds),
        samples=9,
        baseline_seconds=baseline,
        limit_seconds=limit,
    )
    stage = StageReport(stage="audit", passed=True, seconds=0.0)
    return Accepted(kernel="k", stages=(stage,), timings=(timing,), worst_error=0.0)


def steps(seconds: float, start: float | None) -> int:
    reward = rewards.of_verdict(accepted(seconds), start)
    assert reward is not None
    return reward.steps


@pytest.mark.parametrize(
    ("seconds", "start", "expected"),
    [
        (2.0, 0.5, 1),
        (0.951, 2.0, 1),  # saves less than 5 % of the baseline, whatever it saves of the start
        (0.949, 0.5, 2),
        (0.476, 0.5, 2),  # 4.8 % less than the start
        (0.474, 0.5, 3),
        (0.474, None, 2),  # nothing to hold it against
    ],
)
def test_steps_are_cuda_agents(seconds: float, start: float | None, expected: int) -> None:
    assert steps(seconds, start) == expected


def test_a_wrong_kernel_gets_the_least_and_an_unjudged_one_gets_nothing() -> None:
    failed = StageReport(stage="correct", passed=False, seconds=0.0)
    wrong = Rejected(kernel="k", stage="correct", reason="wrong_result", message="wrong", stages=(failed,))
    reward = rewards.of_verdict(wrong, 1.0)
    assert reward is not None and (reward.steps, reward.continuous) == (-1, -1.0)
    assert rewards.of_verdict(Unjudged(kernel="k", message="the device is gone"), 1.0) is None


def test_the_continuous_reward_is_zero_at_the_baseline_and_one_at_the_limit() -> None:
    at = [rewards.of_verdict(accepted(seconds), None) for seconds in (1.0, 0.1, 0.01, 0.001, 1e9)]
    assert [reward and reward.continuous for reward in at] == pytest.approx([0.0, 0.5, 1.0, 1.0, -0.5])


def test_a_baseline_at_its_limit_leaves_little_to_earn() -> None:
    reward = rewards.of_verdict(accepted(0.98, limit=0.97), None)
    assert reward is not None and reward.continuous == pytest.approx(math.log(1 / 0.98) / math.log(2))


@settings(max_examples=60)
@given(st.floats(1e-7, 1e4), st.floats(1e-7, 1e4), st.floats(0.01, 1.0))
def test_every_right_kernel_beats_every_wrong_one_and_faster_is_never_worse(a: float, b: float, share: float) -> None:
    slow, fast = (rewards.of_verdict(accepted(t, limit=share * 1e-7), 0.5) for t in (max(a, b), min(a, b)))
    assert slow is not None and fast is not None
    assert -1 < slow.continuous <= fast.continuous <= 1
    assert 1 <= slow.steps <= fast.steps


def test_an_attempt_and_its_verdict_are_worth_the_same() -> None:
    verdict = accepted(0.3)
    attempt = Attempt(
        id="a1",
        parent="a0",
        iteration=1,
        kernel_id="k",
        kernel={},
        change="",
        outcome="slower",
        seconds=verdict.seconds,
        speedup=verdict.speedup,
        share_of_limit=verdict.share_of_limit,
        judged_at=0.0,
        device_seconds=0.0,
    )
    assert rewards.of_attempt(attempt, 0.9) == rewards.of_verdict(verdict, 0.9)
    lost = attempt.model_copy(update={"outcome": "unjudged", "seconds": None, "speedup": None, "share_of_limit": None})
    assert rewards.of_attempt(lost, 0.9) is None
    start = attempt.model_copy(update={"id": "a0", "iteration": 0, "outcome": "kept"})
    assert rewards.start_seconds(start) == 0.3
    assert rewards.start_seconds(attempt) is None
    assert rewards.start_seconds(lost) is None and rewards.start_seconds(None) is None
