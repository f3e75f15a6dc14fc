"""`warpsmith show RUN --context ROLE --at N` prints what the role was sent, to the byte."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_run import TASK_OF_200, SimulatedExecutor, SimulatedModel

from agents.drive import optimize
from agents.models import registry
from agents.models.base import Message, OnText, Reply, Request
from agents.settings import Budgets, Models, Role, RunSettings
from app.context import last_turn, seen_by, show_context
from memory.files import RunFolderError
from memory.runs import RunFolder


class Listening(SimulatedModel):
    """Keeps the first prompt of each turn."""

    def listen(self) -> None:
        self.heard: dict[tuple[str, int], list[Message]] = {}

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        said = await super().reply(request, on_text)
        self.heard.setdefault((self.calls[-1].role, self.calls[-1].iteration), list(request.messages))
        return said


@pytest.fixture
async def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunFolder, Listening]:
    """A run of three iterations, and what its model heard."""
    model = Listening()
    model.listen()
    monkeypatch.setitem(registry.LOCAL, "simulated", lambda _spec, _seed: model)
    run = RunFolder.create(tmp_path, "simulated", {})
    run.add_hint("Keep the <layout> of the output.", 2)
    budgets = Budgets(iterations=3, near_limit=None, patience=None)
    settings = RunSettings(budgets=budgets, models=Models.choose("simulated:model"))
    await optimize(TASK_OF_200, settings, run, SimulatedExecutor(), lambda _: None)
    return RunFolder(run.path), model


@pytest.mark.parametrize("role", ["planner", "coder", "analyst"])
async def test_every_opening_is_what_the_model_was_sent(played: tuple[RunFolder, Listening], role: Role) -> None:
    run, model = played
    for iteration in (1, 2, 3):
        sent = model.heard[role, iteration]
        seen = seen_by(run, role, iteration)
        assert [(p.speaker, p.text) for p in seen.parts] == [(m.speaker, m.text) for m in sent[: len(seen.parts)]]
        assert len(seen.parts) == len(sent)
        assert sum(part.tokens for part in seen.parts) <= seen.view["budget"]  # type: ignore[operator]


async def test_the_command_prints_it_word_for_word_with_a_table(
    played: tuple[RunFolder, Listening], capsys: pytest.CaptureFixture[str]
) -> None:
    run, model = played
    assert show_context(run, "planner", None, 0, as_json=False) == 0
    out = capsys.readouterr().out
    for message in model.heard["planner", 3]:
        assert f": {message.label} (" in out and message.text in out
    assert "Keep the <layout> of the output." in out
    assert re.search(r"best kernel +[\d,]+ +[\d.]+%", out) and "in all" in out and "o200k_base times" in out
    assert show_context(run, "coder", 2, 0, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert [m["text"] for m in told["messages"]] == [m.text for m in model.heard["coder", 2]]
    assert told["view"]["iteration"] == 2 and told["view"]["role"] == "coder"


async def test_what_was_not_said_is_an_error_that_says_so(played: tuple[RunFolder, Listening]) -> None:
    run, _ = played
    assert last_turn(run, "analyst") == 3
    with pytest.raises(RunFolderError, match="no turn of the planner in iteration 9"):
        seen_by(run, "planner", 9)
    with pytest.raises(RunFolderError, match="no turn of coder 4 in iteration 2"):
        seen_by(run, "coder", 2, 4)
    run.transcript("0007-planner").add({"speaker": "assistant", "text": "from an older version"})
    with pytest.raises(RunFolderError, match="older version"):
        seen_by(run, "planner", 7)


async def test_the_command_line_reaches_it(played: tuple[RunFolder, Listening]) -> None:
    run, model = played
    root = Path(__file__).parent.parent
    command = [sys.executable, "-m", "app.start", "show", str(run.path), "--context", "coder", "--at", "1"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert all(message.text in shown.stdout for message in model.heard["coder", 1])
    wrong = subprocess.run(
        [*command[:-1], "8"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent
    )
    assert wrong.returncode == 2 and "has no turn of coder 0 in iteration 8" in wrong.stderr
