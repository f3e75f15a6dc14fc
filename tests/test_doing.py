"""What is waited for where several coders work at the same time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from app.doing import Doing, Out, timed
from app.session.story import Story

MODELS = {"planner": "a:b", "coder": "local:mini", "analyst": "a:b"}
BEGUN = {"event": "run_started", "run": "r", "task": "t", "target": "cpu", "models": MODELS, "budgets": {}}
ITERATION = {"event": "iteration_started", "iteration": 1, "iterations": 9}


def at(second: int, kind: str, slot: int = 1, **fields: Any) -> dict[str, Any]:
    """A line of a coder's, in that second."""
    turn = {"role": "coder", "turn": f"0001-coder-{slot}", "model": "local:mini"} if kind != "hypothesis" else {}
    return {"event": kind, "time": f"2026-01-01T00:00:{second:02d}Z", "iteration": 1, **turn, **fields}


TOLD = (
    (at(1, "hypothesis", change="x"), "coder: waiting for local:mini: x, 58 s"),
    (at(2, "hypothesis", change="y"), "coder: 2 calls of local:mini are out, the oldest for 58 s"),
    (at(3, "hypothesis", change="z"), "coder: 3 calls of local:mini are out, the oldest for 58 s"),
    (at(4, "model_called", 2, stop="tools"), "coder: 2 calls of local:mini are out, the oldest for 57 s"),
    (at(5, "tool_called", 2, tool="run"), "coder: 3 calls of local:mini are out, the oldest for 57 s"),
    (at(6, "model_failed", 1), "coder: 2 calls of local:mini are out, the oldest for 56 s"),
    (at(7, "model_called", 3, stop="done"), "coder: local:mini answered, 52 s"),
    (at(8, "model_changed", 1, after="local:other"), "coder: 2 calls of local:other are out, the oldest for 54 s"),
    (at(9, "model_called", 2, stop="done"), "coder: local:mini answered, 50 s"),
    (at(9, "model_called", 1, stop="done"), "coder: local:mini answered, 50 s"),
)


def test_as_many_calls_are_out_as_no_reply_came_to() -> None:
    story, doing, new_year = Story(), Doing(), 1767225600
    for line in (BEGUN, ITERATION):
        story.take(line)
        doing.take(line["event"], line)
    for line, words in TOLD:
        story.take(line)
        assert doing.take(line["event"], line) or line["event"] == "model_failed"
        assert story.now(new_year + 59) == words
        assert str(doing) == words.rpartition(", the" if " are out" in words else ", ")[0], "it began just now"
    story.hear(["coder"])
    assert story.doing == "coder: local:mini answered"


def test_another_iteration_begins_with_nothing_out() -> None:
    out = Out()
    for line in (at(1, "hypothesis"), at(2, "hypothesis"), ITERATION, at(3, "hypothesis")):
        told = out.take(line["event"], line, MODELS, 1.0)
    assert told is None


@pytest.mark.parametrize("model", ["builtin:autotune", None])
def test_what_is_built_in_is_not_waited_for(model: str | None) -> None:
    out, models = Out(), {} if model is None else {"coder": model}
    assert not any(out.take(kind, {}, models, 1.0) for kind in itertools.repeat("hypothesis", 4))


def test_how_long_is_said_of_the_oldest() -> None:
    assert timed("coder: 2 calls of m are out", 40) == "coder: 2 calls of m are out, the oldest for 40 s"
    assert timed("coder: 2 calls of m are out", 1) == "coder: 2 calls of m are out"
