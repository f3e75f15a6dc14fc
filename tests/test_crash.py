"""Runs that are killed: by the harness anywhere in a run that measures nothing, and with the real judge and worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import psutil
import pytest
from crash_harness import once
from power_cut import Flushes, cut, leftovers, settle

from memory.files import write_atomically
from memory.runs import RunFolder, list_runs

ROOT = Path(__file__).parent
ENVIRONMENT = {"PYTHONPATH": f"{ROOT.parent}:{ROOT}"}
PATIENCE = 240.0
"""Seconds until something counts as not happening at all."""
REFERENCE = '''
"""Squares, summed over rows."""
import numpy as np

def inputs(rng):
    return {"x": rng.standard_normal((64, 512)).astype(np.float32)}

def reference(x):
    return {"y": (x * x).sum(axis=1)}
'''
KERNEL = """
#include "task.h"
// tune: LANES = 1,4,16
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
Found = TypeVar("Found")


def harness(*arguments: str) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-P", str(ROOT / "crash_harness.py"), *arguments]
    done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_a_run_killed_anywhere_comes_to_the_same_end() -> None:
    for report in harness("--kills", "12", "--seed", "7", "--iterations", "5").values():
        assert report["problems"] == [] and report["kills"] == 6 and report["attempts"] == 6


@pytest.mark.slow
def test_a_run_whose_judge_and_workers_are_killed_too_comes_to_the_same_end() -> None:
    """Orphans, a device that stays held and files that stay behind are problems as well."""
    (report,) = harness("--kills", "8", "--seed", "3", "--iterations", "4", "--models", "priced", "--apart").values()
    assert report["problems"] == [] and report["attempts"] == 5
    assert report["kills"] and report["judge_kills"] + report["worker_kills"], report


@pytest.mark.slow
def test_coders_in_parallel_lose_nothing_either() -> None:
    (report,) = harness(
        "--kills", "4", "--seed", "3", "--iterations", "3", "--parallel", "3", "--models", "priced"
    ).values()
    assert report["problems"] == [] and report["kills"] == 4


def test_a_power_cut_takes_nothing_that_was_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the simulation itself: whatever the dice say, durable files stay, and others do get lost."""
    monkeypatch.setattr(os, "fsync", os.fsync)
    lost = 0
    for seed in range(20):
        folder, log = tmp_path / str(seed), tmp_path / f"log-{seed}"
        folder.mkdir()
        settle(folder, log)
        log.touch()
        before = os.fsync
        Flushes(log).install()
        for i in range(8):
            write_atomically(folder / f"sure-{i}", "sure" * i, durable=True)
            write_atomically(folder / f"perhaps-{i}", "perhaps" * i)
        monkeypatch.setattr(os, "fsync", before)
        cut(folder, log, Random(seed))
        assert all((folder / f"sure-{i}").read_text() == "sure" * i for i in range(8))
        kept = [folder / f"perhaps-{i}" for i in range(8)]
        lost += sum(not path.exists() or path.read_text() != "perhaps" * i for i, path in enumerate(kept))
    assert 20 < lost < 160


def wait_for(look: Callable[[], Found | None], child: subprocess.Popen[str]) -> Found:
    """What `look` finds, as soon as it does; fails when the child ends before."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        assert child.poll() is None, child.communicate()
        time.sleep(0.002)
    raise AssertionError("it did not happen")


def of_kind(child: subprocess.Popen[str], words: str) -> psutil.Process | None:
    """A process below `child` whose command line has these words."""
    try:
        below = psutil.Process(child.pid).children(recursive=True)
        return next((p for p in below if words in " ".join(p.cmdline())), None)
    except psutil.NoSuchProcess:
        return None


def told(runs: Path, kind: str, times: int = 1) -> RunFolder | None:
    """The run, once it told that so often."""
    for run in list_runs(runs):
        if sum(event["event"] == kind for event in run.events()) >= times:
            return run
    return None


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `warpsmith` on files of its own; what still runs at the end is killed."""
    (tmp_path / "squares.py").write_text(REFERENCE)
    (tmp_path / "squares.cpp").write_text(KERNEL)
    (tmp_path / "tmp").mkdir()
    children: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "app.start", *arguments, "--runs", str(tmp_path / "runs")]
        own = ENVIRONMENT | {"TMPDIR": str(tmp_path / "tmp"), "WARPSMITH_PATIENCE": "0.1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        children.append(subprocess.Popen(command, env=os.environ | own, cwd=tmp_path, text=True, **pipes))
        return children[-1]

    yield begin
    for child in children:
        child.kill()
        child.communicate()


@pytest.mark.slow
@pytest.mark.timeout(900)  # the device's lock may be another's for long
def test_judge_worker_and_orchestrator_are_killed_and_the_run_ends_as_if_not(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    runs, shared = tmp_path / "runs", set(Path("/dev/shm").iterdir())
    child = start(
        "optimize",
        "squares.py",
        "--start",
        "squares.cpp",
        "--iterations",
        "3",
        "--near-limit",
        "0",
        "--lessons",
        "none",
    )
    wait_for(lambda: told(runs, "task_opened"), child)
    wait_for(lambda: of_kind(child, "tools.service"), child).kill()
    run = wait_for(lambda: told(runs, "attempt_judged"), child)
    assert run.attempt("a0").outcome == "kept", "the job is done again by another judge"
    wait_for(lambda: of_kind(child, "/worker "), child).kill()
    wait_for(lambda: told(runs, "attempt_judged", 2), child)
    below = psutil.Process(child.pid).children(recursive=True)
    child.send_signal(signal.SIGKILL)
    child.wait()
    _, alive = psutil.wait_procs(below, timeout=PATIENCE)
    assert not alive, "no orphan is left"
    before = RunFolder(run.path).attempts()
    resumed = start("resume", "latest", "--json")
    stdout, stderr = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, stderr
    found = json.loads(stdout)
    after = RunFolder(run.path).attempts()
    assert found["iterations"] == 3 and found["reason"] == "iterations" and found["measured"] == "afresh"
    assert after[: len(before)] == before and len({a.kernel_id for a in after}) == len(after) == 4
    assert all(a.outcome != "unjudged" for a in after), "a kernel whose worker was killed is judged again"
    assert once(RunFolder(run.path)) == [] and leftovers(run.path) == []
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not {
        path
        for path in set(Path("/dev/shm").iterdir()) - shared
        if path.stat().st_uid == os.getuid() and "warpsmith" in path.name
    }
