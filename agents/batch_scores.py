"""What a batch came to in single figures: pure functions of each task's speed-up and reward.

`fast_p` is KernelBench's (Ouyang et al., arXiv 2502.10517; `fastp` in its src/score.py): the share of all tasks whose
kernel is right and whose speed-up over the baseline is above p. A task without an accepted kernel is in the denominator
only.

A geometric mean "with failures" counts a task without an accepted kernel as a speed-up of 1: who has no better kernel
goes on with the baseline. A kernel that is slower than the baseline counts as what it is in both means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

FAST_AT = (0.0, 1.0, 1.5, 2.0)
FAILURE_COUNTS_AS = 1.0
"""The speed-up of a task without an accepted kernel, in the mean that counts failures."""


class Scores(BaseModel):
    """Figures over all tasks that could be judged. None where there is nothing to take a mean of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: int
    correct: int
    """Tasks with an accepted kernel."""
    fast: dict[str, float | None]
    """fast_p by p: `{"0": 1.0, "1": 0.5, ...}`."""
    geomean: float | None
    """Of the speed-ups over the baseline, tasks with an accepted kernel only."""
    geomean_with_failures: float | None
    gain_geomean: float | None
    """Of starting kernel's time / best time, where both were accepted."""
    rewards: dict[str, int]
    """Tasks by reward: -1, 1, 2, 3, or `none` where nothing was learnt."""
    mean_reward: float | None
    """Of those that have one."""


def scores(speedups: Sequence[float | None], gains: Sequence[float | None], rewards: Sequence[int | None]) -> Scores:
    """One entry a task in each. speedups: None without an accepted kernel; gains: without a starting kernel too."""
    right = [speedup for speedup in speedups if speedup is not None]
    known = [reward for reward in rewards if reward is not None]
    names = ["-1", "1", "2", "3", "none"]
    written = ["none" if reward is None else str(reward) for reward in rewards]
    return Scores(
        tasks=len(speedups),
        correct=len(right),
        fast={f"{p:g}": fast_p(speedups, p) for p in FAST_AT},
        geomean=geomean(right),
        geomean_with_failures=geomean([FAILURE_COUNTS_AS if s is None else s for s in speedups]),
        gain_geomean=geomean([gain for gain in gains if gain is not None]),
        rewards={name: written.count(name) for name in names},
        mean_reward=sum(known) / len(known) if known else None,
    )


def fast_p(speedups: Sequence[float | None], p: float) -> float | None:
    """The share of tasks that are right and faster than p times the baseline; None without tasks."""
    fast = [speedup for speedup in speedups if speedup is not None and speedup > p]
    return len(fast) / len(speedups) if speedups else None


def geomean(ratios: Sequence[float]) -> float | None:
    """Their geometric mean; None without any."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
