"""What an attempt's change of time is: races before medians, on each surface that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_run import _accepted
from test_report import Page

from agents.reflection import score_iteration
from app.report import page_fields, render
from app.serve.views import run_now
from app.session.headline import headline
from app.session.story import Story
from app.session.tried import Idea, Tried
from app.session.words import moved, what
from memory.ledger import Outcome
from memory.movement import movement, race_in
from memory.runs import Attempt, RunFolder
from tools.records import Kernel

SOURCE = "// tune: LANES = 8,16,32\n#ifndef LANES\n#define LANES 16\n#endif\nvoid solve() {}\n"


def attempt(
    number: int, outcome: Outcome, seconds: float | None, note: str = "", parent: str | None = "a0", **said: Any
) -> Attempt:
    hypothesis = {"idea": "i", "change": "LANES=8", "metric": "seconds", "expected": "-20 %", "kind": "other"} | said
    return Attempt(
        id=f"a{number}",
        parent=parent if number else None,
        iteration=number,
        kernel_id=f"k{number}",
        kernel={
            "language": "cpp",
            "files": {"kernel.cpp": f"{SOURCE}// {number}\n"},
            "defines": {"LANES": "32"},
            "flags": [],
        },
        hypothesis=hypothesis if number else None,
        change="edited kernel.cpp (+1 -1) LANES=32" if number else "LANES=16",
        outcome=outcome,
        note=note,
        seconds=seconds,
        share_of_limit=None if seconds is None else 0.5,
        speedup=None if seconds is None else 2.0,
        judged_at=float(number),
        device_seconds=0.1,
    )


NOISY = (
    attempt(0, "kept", 3.5e-3, "2x the baseline"),
    attempt(1, "kept", 1.66e-3, "1.9x a0 [1.850, 1.950]"),
    attempt(2, "slower", 1.53e-3, "0.501x a1 [0.480, 0.520]", "a1"),
    attempt(3, "same", 1.30e-3, "1.03x a1 [0.960, 1.110]", "a1"),
    attempt(4, "kept", 1.86e-3, "2.53x a1 [2.400, 2.650]", "a1"),
    attempt(5, "slower", 1.40e-3, "0.8x a4 [0.780, 0.820]", "a1", expected="halve it"),
)
"""Medians that say the opposite of each race, as on a machine whose speed changes between two verdicts."""
KNOWN = {each.id: each for each in NOISY}


def tried(each: Attempt) -> Tried:
    """As the session knows it."""
    idea = Idea(each.iteration, "LANES=8", "i", "seconds", "-20 %", each.parent) if each.hypothesis else None
    return Tried(
        id=each.id,
        parent=each.parent,
        iteration=each.iteration,
        outcome=each.outcome,
        change=each.change,
        note=each.note,
        seconds=each.seconds,
        share=each.share_of_limit,
        speedup=each.speedup,
        person=None,
        idea=idea,
    )


def noisy_run(root: Path) -> RunFolder:
    run = RunFolder.create(root, "t", {})
    for each in NOISY:
        verdict = _accepted(Kernel.model_validate(each.kernel), each.seconds or 1.0)
        run.add_attempt(each, {"kernel.cpp": SOURCE}, verdict.model_dump(mode="json"))
    return RunFolder(run.path)


@pytest.mark.parametrize(
    ("number", "reference", "evidence", "words", "direction"),
    [
        (1, "a0", "raced", "-47 %", -1),
        (2, "a1", "raced", "+100 %", 1),
        (3, "a1", "raced", "±9.9 %", 0),
        (4, "a1", "raced", "-60 %", -1),
        (5, "a1", "chained", "-51 %", -1),
        (5, "a0", "chained", "-74 %", -1),
        (0, "a4", "chained", "+381 %", 1),
    ],
)
def test_a_race_counts_before_the_medians(
    number: int, reference: str, evidence: str, words: str, direction: int
) -> None:
    found = movement(NOISY[number], KNOWN[reference], KNOWN)
    assert found is not None
    assert (found.evidence, found.words, found.direction) == (evidence, words, direction)
    assert found.against == reference and found.low is not None and found.low <= found.ratio


def test_what_was_not_raced_is_from_the_medians_and_says_so() -> None:
    apart = attempt(7, "kept", 2.0, "2x the baseline")
    found = movement(attempt(6, "kept", 1.6), apart, {"a7": apart})
    assert found is not None and (found.evidence, found.words, found.basis) == ("medians", "~-20 %", "not raced")
    still = movement(attempt(6, "same", 1.995), apart, {})
    assert still is not None and still.direction == 0
    assert movement(attempt(6, "rejected", None), apart, {}) is None
    assert movement(apart, None, {}) is None
    assert race_in("1.2x the baseline") is race_in("") is race_in("0x a1 [0.000, 0.000]") is None


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.1, 10)), min_size=1, max_size=6),
    st.integers(0, 6),
    st.integers(0, 6),
)
def test_chains_of_exact_races_are_exact_and_circles_end(races: list[tuple[int, float]], one: int, other: int) -> None:
    """Each attempt races any of the earlier ones; what the way over them says is what the true times say."""
    times = [1.0]
    known = {"a0": attempt(0, "kept", 1.0)}
    for number, (against, ratio) in enumerate(races, start=1):
        rival = against % number
        times.append(times[rival] / ratio)
        note = f"{ratio:.12g}x a{rival} [{ratio * 0.9:.12g}, {ratio * 1.1:.12g}]"
        known[f"a{number}"] = attempt(number, "same", 1.0, note)
    a, b = one % len(times), other % len(times)
    found = movement(known[f"a{a}"], known[f"a{b}"], known)
    assert found is not None and found.ratio == pytest.approx(times[b] / times[a])
    circle = {"a1": attempt(1, "kept", 1.0, "2x a2 [1, 3]"), "a2": attempt(2, "kept", 1.0, "2x a1 [1, 3]")}
    assert movement(circle["a1"], attempt(3, "kept", 1.0), circle) is not None


def test_no_surface_says_the_opposite_of_the_race(tmp_path: Path) -> None:
    run = noisy_run(tmp_path)
    score_iteration(run, run.attempts())
    run = RunFolder(run.path)
    right = {"a1": True, "a2": False, "a3": False, "a4": True, "a5": True}
    assert {name: score["direction_right"] for name, score in run.scores().items()} == right
    fields = page_fields(run)
    step = fields["steps"][-1]  # type: ignore[index]
    assert (step.attempt.id, step.moved.ratio, step.moved.evidence) == ("a4", 2.53, "raced")
    assert step.over_start.ratio == pytest.approx(1.9 * 2.53) and step.raced is None
    (rate,) = fields["rates"]  # type: ignore[misc]
    assert (rate.scored, rate.right) == (5, 3)
    words = " ".join(Page(render(run)).words.split())
    assert "2.53x over a1 (raced [2.40x, 2.65x])" in words
    assert "-60% against a1, raced, in the predicted direction" in words
    assert "measured +100% against a1, raced, not in the predicted direction" in words
    assert "measured ±9.9% against a1, raced, no movement beyond noise" in words
    assert "4.81x" in run_now(run, "")["vs_start"](KNOWN["a4"])
    story = Story(attempts={each.id: tried(each) for each in NOISY})
    assert [m.words if (m := moved(each, story)) else "" for each in story.attempts.values()] == [
        "", "-47 %", "+100 %", "±9.9 %", "-60 %", "-51 %",
    ]  # fmt: skip

    story.best = "a4"
    assert "best a4 1.860 ms  4.81x the start" in headline(story, 200).plain


def test_a_score_that_an_older_version_wrote_of_medians_is_not_repeated(tmp_path: Path) -> None:
    run = noisy_run(tmp_path)
    run.add_score("a4", {"metric": "seconds", "before": 1.66e-3, "after": 1.86e-3, "change": 0.12})
    assert "+12%" not in render(RunFolder(run.path))


def test_headings_name_what_was_built_and_what_was_meant_beside_it(tmp_path: Path) -> None:
    run = noisy_run(tmp_path)
    words = " ".join(Page(render(run)).words.split())
    assert "a4: edited kernel.cpp (+1 -1) LANES=32 meant: LANES=8" in words
    story = Story(attempts={each.id: tried(each) for each in NOISY})
    assert what(story.attempts["a1"], story) == "edited LANES=32: LANES=8"
    assert what(story.attempts["a2"], story) == "edited: LANES=8"
    assert what(story.attempts["a0"], story) == "the starting kernel"
