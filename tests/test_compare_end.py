"""A run that a person took as good enough is not called stopped, wherever its end is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.compare import contender
from app.serve.catalog import Catalog
from app.summary import summarize
from memory.runs import RunFolder
from tests.synthetic_run import make_run

STOPPED, ACCEPTED = "stopped by the user", "accepted by the user"


def did(action: str) -> dict[str, Any]:
    return {"event": "steered", "id": action, "action": action, "iteration": 2, "about": {}}


END: dict[str, Any] = {"event": "run_ended", "reason": "user"}
AGAIN: dict[str, Any] = {"event": "run_resumed", "models": {}}


@pytest.mark.parametrize(
    ("lines", "reason", "words"),
    [
        ([did("accept"), END], "user", ACCEPTED),
        ([did("accept"), AGAIN, END], "user", ACCEPTED),
        ([did("accept"), END, {"event": "exported", "id": "e"}], "user", ACCEPTED),
        ([did("stop"), END], "user", STOPPED),
        ([did("policy"), END], "user", STOPPED),
        ([END], "user", STOPPED),
        ([did("accept"), END, AGAIN, END], "user", STOPPED),
        ([did("accept"), END], "iterations", "the iteration limit was reached"),
    ],
)
def test_an_end_by_accept_is_told_from_a_stop(
    tmp_path: Path, lines: list[dict[str, Any]], reason: str, words: str
) -> None:
    made = make_run(tmp_path, attempts=2)
    outcome = made.outcome()
    assert outcome is not None
    made.write_outcome(outcome | {"reason": reason})
    told = [{"event": "run_started", "models": {}}, *lines]
    text = "".join(json.dumps(line | {"time": "2027-01-15T08:00:00Z"}) + "\n" for line in told)
    (made.path / "events.jsonl").write_text(text)
    run = RunFolder(made.path)
    (listed,) = Catalog(tmp_path).runs()
    assert (summarize(run).reason_words, contender(run).state, listed.words) == (words, words, words)
