"""Against a real model server, only when WARPSMITH_REAL_MODEL names one: a run survives whatever it says.

    WARPSMITH_REAL_MODEL=http://127.0.0.1:8080/v1 pytest -m real_model

WARPSMITH_REAL_WIRES: which protocols it speaks, as `chat,responses,messages`; `chat` when left out. Nothing here
looks at whether an answer is any good. The device is a stub, so that only the model takes time.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.drive import optimize
from agents.models.catalogue import Catalogue
from agents.models.costs import ledger
from agents.settings import Budgets, Models, RunSettings
from app.configuration import Asked, Configuration, configure
from app.models import try_model
from app.report import render
from memory.runs import RunFolder
from tests.stub_executor import TASK, StubExecutor

URL = os.environ.get("WARPSMITH_REAL_MODEL", "").rstrip("/")
WIRES = os.environ.get("WARPSMITH_REAL_WIRES", "chat").split(",")
SECONDS = 1500
pytestmark = [
    pytest.mark.real_model,
    pytest.mark.timeout(SECONDS + 300),
    pytest.mark.skipif(not URL, reason="WARPSMITH_REAL_MODEL names no server"),
]


def configured(folder: Path, wire: str) -> Configuration:
    """The server as an endpoint, told of a window that small models have and of short replies."""
    url = URL.removesuffix("/v1") if wire == "messages" else URL
    (folder / "warpsmith.toml").write_text(
        f'[endpoints.real]\nwire = "{wire}"\nbase_url = "{url}"\nwindow = 32768\noutput = 200\ntimeout = {SECONDS}\n'
    )
    return configure(Asked(model="real:any", dialect=("json",)), {"HOME": str(folder)}, folder)


@pytest.mark.parametrize("wire", WIRES)
def test_models_test_gets_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configured(tmp_path, wire)
    monkeypatch.chdir(tmp_path)
    code = try_model("real:any", Asked(dialect=("json",)), SECONDS, as_json=False)
    said = capsys.readouterr().out
    print(said)
    assert code in (0, 1) and "reachable       yes" in said


@pytest.mark.parametrize("wire", WIRES)
async def test_a_run_survives_what_the_model_says(tmp_path: Path, wire: str) -> None:
    configuration = configured(tmp_path, wire)
    run = RunFolder.create(tmp_path / "runs", TASK.name, {"task": {"name": TASK.name}})
    settings = RunSettings(
        budgets=Budgets(iterations=1, tokens=40_000, wall_time=SECONDS, near_limit=None),
        models=Models.choose("real:any"),
        reply_tokens=1_000,
        turn_steps=4,
    )
    outcome = await optimize(
        TASK,
        settings,
        run,
        StubExecutor(lambda _: 0.1),
        lambda event: print(event.event, event.fields),
        connections=configuration.connections,
        catalogue=Catalogue.with_prices(),
    )
    assert outcome.best == "a0" or outcome.best is not None
    rows = ledger(run)
    assert sum(row.calls for row in rows) >= 1 and all(row.dollars is None for row in rows if row.calls)
    assert sum(row.input_tokens for row in rows) == outcome.input_tokens > 0
    assert "Models and money" in render(RunFolder(run.path))
