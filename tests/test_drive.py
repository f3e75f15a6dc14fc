"""A whole run on this machine: real compiler, real judge, real worker; only the model is built in."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.drive import optimize
from agents.events import Event
from agents.settings import Budgets, RunSettings
from memory.runs import RunFolder
from tools.executor import LocalExecutor
from tools.profiles import Profile
from tools.records import Accepted
from tools.task import read_task

REFERENCE = '''
"""Squares, summed over rows."""
import numpy as np

def inputs(rng):
    return {"x": rng.standard_normal((256, 1024)).astype(np.float32)}

def reference(x):
    return {"y": (x * x).sum(axis=1)}
'''
KERNEL = """
#include "task.h"
// tune: LANES = 1,16
#ifndef LANES
#define LANES 1
#endif
extern "C" void solve(const task::Args& args, void*) {
  for (int64_t i = 0; i < args.x_d0; ++i) {
    float sums[LANES] = {};
    for (int64_t j = 0; j < args.x_d1; j += LANES)
      for (int64_t k = 0; k < LANES; ++k) sums[k] += args.x[i * args.x_d1 + j + k] * args.x[i * args.x_d1 + j + k];
    float sum = 0;
    for (float part : sums) sum += part;
    args.y[i] = sum;
  }
}
"""


@pytest.mark.slow
async def test_a_task_gets_a_faster_kernel_that_was_really_measured(tmp_path: Path) -> None:
    (tmp_path / "squares.py").write_text(REFERENCE)
    (tmp_path / "squares.cpp").write_text(KERNEL)
    task = read_task(tmp_path / "squares.py")
    run = RunFolder.create(tmp_path / "runs", task.name, {})
    events: list[Event] = []
    async with LocalExecutor() as executor:
        settings = RunSettings(budgets=Budgets(iterations=2, near_limit=None))
        outcome = await optimize(task, settings, run, executor, events.append)
    assert (outcome.reason, outcome.iterations) == ("iterations", 2)
    attempts = run.attempts()
    assert attempts[0].outcome == "kept" and len(attempts) == 3
    for attempt in attempts:
        assert attempt.outcome in ("kept", "same", "slower"), attempt.note
        verdict = Accepted.model_validate(run.verdict(attempt.id))
        assert verdict.kernel == attempt.kernel_id and attempt.seconds == verdict.seconds
    assert outcome.best is not None and outcome.final is not None
    final = Accepted.model_validate(outcome.final)
    assert final.kernel == run.attempt(outcome.best).kernel_id
    if outcome.best != "a0":
        assert final.comparison is not None and final.comparison.decision == "faster"
        assert Profile.model_validate(run.profile(outcome.best)).kernel == final.kernel
