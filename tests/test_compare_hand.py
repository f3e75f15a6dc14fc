"""A gain that a person's kernel made is marked, and credited to no model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.compare import compare, contender
from app.compare_hand import ByHand, by_hand_in
from app.compare_report import parts_of
from app.pages import rendered
from memory.runs import RunFolder
from tests.synthetic_run import make_run


def run_with(root: Path, model: str, *hands: str, attempts: int = 7) -> RunFolder:
    """A run of that model whose attempts `hands` a person wrote. Its best is a6, by a0 and one attempt between them."""
    run = make_run(root, attempts=attempts)
    for hand in hands:
        path = run.folder_of(hand) / "attempt.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"person": "unrolled", "hypothesis": None}))
    models = {"planner": model, "coder": model, "analyst": model}
    line = {"event": "run_started", "time": "2027-01-15T08:00:00Z", "models": models}
    (run.path / "events.jsonl").write_text(json.dumps(line) + "\n")
    return RunFolder(run.path)


def test_what_a_person_wrote_is_told_from_what_grew_from_it(tmp_path: Path) -> None:
    attempts = run_with(tmp_path, "x:1", "a3", "a5").attempts()
    assert [attempt.parent for attempt in attempts if attempt.id in ("a5", "a6")] == ["a0", "a0"]
    assert by_hand_in(attempts, "a6") == ByHand(attempts=2, failed=1, accepted=1)
    grown = [a.model_copy(update={"parent": "a5"}) if a.id == "a6" else a for a in attempts]
    found = by_hand_in(grown, "a6")
    assert found == ByHand(best="a5", attempts=2, failed=1, accepted=2)
    assert (found.words("a6"), found.words("a5"), ByHand().words("a6")) == ("from a5, by hand", "by hand", "")
    turning = [a.model_copy(update={"parent": "a0" if a.id == "a6" else "a6"}) for a in attempts]
    assert by_hand_in(turning, "a6").best is None


@pytest.mark.parametrize("alone", [True, False])
def test_a_gain_by_hand_is_in_no_mean_of_models(tmp_path: Path, alone: bool) -> None:
    by_hand, other = run_with(tmp_path / "1", "x:1", "a6"), run_with(tmp_path / "2", "y:2")
    runs = [by_hand, other] if alone else [by_hand, other, run_with(tmp_path / "3", "x:1", attempts=4)]
    own = None if alone else contender(runs[2])
    assert contender(by_hand).hand == "by hand" and contender(by_hand).gain is not None
    compared = compare(runs)
    (tally,) = [each for each in compared.models if each.model == "x:1"]
    assert (tally.by_hand, tally.runs, tally.solved) == (1, len(runs) - 1, len(runs) - 1)
    assert tally.speedup == (own.speedup if own else None) and tally.gain == (own.counted_gain if own else None)
    assert (tally.attempts, tally.failed) == ((6, 1) if alone else (10, 2))
    page = rendered("compare.html.j2", {"compared": parts_of(compared)})
    assert ("1 by hand" if alone else "without 1 by hand") in page and "in neither mean of its models" in page
    assert "by hand" not in rendered(
        "compare.html.j2", {"compared": parts_of(compare([other, run_with(tmp_path / "4", "z:3")]))}
    )


def test_a_run_that_only_a_person_solved_is_not_solved_by_its_models(tmp_path: Path) -> None:
    run = run_with(tmp_path, "x:1", "a0", attempts=2)
    (tally,) = compare([run]).models
    assert contender(run).best == "a0" and tally.solved == 0 and tally.attempts == 1
