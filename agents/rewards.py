"""What a judged kernel is worth to a trainer: CUDA Agent's four steps, and a figure without steps.

Both follow from a verdict alone. What was not judged has no reward, which is not the same as a reward of 0.

The steps are those of CUDA Agent (arXiv 2602.24286): -1 wrong; 1 right; 2 more than 5 % faster than eager; 3 more than
5 % faster than eager and than torch.compile. Here "eager" is the task's baseline (NumPy, or the PyTorch reference), and
the place of torch.compile, which the judge does not time, is taken by the task's starting kernel: what a compiler makes
of plain code. A task without an accepted starting kernel has nothing above 2.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from memory.ledger import Outcome
from memory.runs import Attempt
from tools.records import Accepted, Verdict

Step: TypeAlias = Literal[-1, 1, 2, 3]
Scale: TypeAlias = Literal["steps", "continuous"]

MARGIN = 0.05
"""Share of a reference's time that a kernel must save to count as faster than it."""
WRONG = -1.0
SLOWEST = -0.5
"""Continuous reward of a right kernel, however slow: above that of a wrong one."""
LEAST_HEADROOM = 2.0
"""Baseline time / limit time is taken for at least this, so that noise weighs little where the baseline is near the
limit."""


class Reward(BaseModel):
    """What one verdict is worth. `steps` is -1, 1, 2 or 3, `continuous` lies in [-1, 1].

    continuous = -1 for a wrong kernel, else log(speedup) / log(max(2, headroom)) held within [-0.5, 1], where speedup =
    baseline time / kernel time and headroom = baseline time / limit time: 0 is the baseline's speed, 1 the limit's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: Step
    continuous: float

    def on(self, scale: Scale) -> float:
        """The figure of that scale."""
        return float(self.steps) if scale == "steps" else self.continuous


_WRONG = Reward(steps=-1, continuous=WRONG)


def of_verdict(verdict: Verdict, start_seconds: float | None) -> Reward | None:
    """The reward of a verdict; None when nothing was learnt. start_seconds: of the accepted starting kernel."""
    if isinstance(verdict, Accepted):
        return _of_accepted(verdict.seconds, verdict.speedup, verdict.share_of_limit, start_seconds)
    return _WRONG if verdict.status == "rejected" else None


def of_attempt(attempt: Attempt, start_seconds: float | None) -> Reward | None:
    """The reward of an attempt of a run; None when nothing was learnt."""
    if attempt.outcome in _RIGHT and attempt.seconds and attempt.speedup and attempt.share_of_limit:
        return _of_accepted(attempt.seconds, attempt.speedup, attempt.share_of_limit, start_seconds)
    return _WRONG if attempt.outcome == "rejected" else None


def start_seconds(first: Attempt | None) -> float | None:
    """The time of the starting kernel, when a run's first attempt is one and was accepted."""
    return first.seconds if first is not None and first.iteration == 0 and first.outcome in _RIGHT else None


_RIGHT: tuple[Outcome, ...] = ("kept", "same", "slower")


def _of_accepted(seconds: float, speedup: float, share_of_limit: float, start: float | None) -> Reward:
    beats_baseline = _saved(speedup) > MARGIN
    beats_start = start is not None and _saved(start / seconds) > MARGIN
    step: Step = 1 if not beats_baseline else 3 if beats_start else 2
    headroom = max(LEAST_HEADROOM, speedup / share_of_limit)
    return Reward(steps=step, continuous=max(SLOWEST, min(1.0, math.log(speedup) / math.log(headroom))))


def _saved(ratio: float) -> float:
    """The share of a reference's time that is saved. ratio: reference time / kernel time."""
    return 1 - 1 / ratio
