"""A long run in small: the real graph with a simulated model, in windows of all sizes, killed and gone on with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_run import FAILED_IDEA, play

from app.context import seen_by
from memory.runs import RunFolder, list_runs

ROOT = Path(__file__).parent


def openings(run: RunFolder) -> dict[tuple[str, int], object]:
    """Each turn's opening, part by part, by content hash."""
    found = {}
    for path in run.path.glob("transcript/*.jsonl"):
        lines = run.transcript(path.stem).lines()
        parts = [line for line in lines if "tokens" in line]
        found |= {(path.stem, i): (part["label"], part["blob"], part["tokens"]) for i, part in enumerate(parts)}
    return found


def child(root: Path, *arguments: int) -> int:
    environment = os.environ | {"PYTHONPATH": f"{ROOT.parent}:{ROOT}"}
    command = [sys.executable, "-P", str(ROOT / "simulated_run.py"), str(root), *map(str, arguments)]
    return subprocess.run(command, env=environment, check=False, capture_output=True).returncode


@pytest.mark.parametrize("window", [16_000, 1_000_000])
def test_a_run_goes_through_in_a_window_of_any_size(tmp_path: Path, window: int) -> None:
    """The model itself fails the test when a prompt and its reply do not fit."""
    model = play(tmp_path, window, 8)
    (run,) = list_runs(tmp_path)
    assert (run.outcome() or {})["iterations"] == 8 and max(call.tokens for call in model.calls) < window
    text = "\n".join(part.text for part in seen_by(run, "planner", 8).parts)
    known = int(seen_by(run, "planner", 8).view["attempts"])  # type: ignore[call-overload]
    assert set(re.findall(r"\ba\d+\b", text)) >= {f"a{i}" for i in range(known)}
    failed = next(a for a in run.attempts() if a.hypothesis and a.hypothesis["change"] == FAILED_IDEA[1])
    assert failed.outcome == "rejected" and failed.note.endswith(FAILED_IDEA[2])


def test_a_killed_and_resumed_run_is_told_the_same_to_the_byte(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    play(whole, 128_000, 5)
    assert child(killed, 128_000, 5, 3) == -9
    stopped = openings(list_runs(killed)[0])
    assert 0 < len(stopped) < len(openings(list_runs(whole)[0]))
    play(killed, 128_000, 5)
    assert openings(list_runs(killed)[0]) == openings(list_runs(whole)[0])
