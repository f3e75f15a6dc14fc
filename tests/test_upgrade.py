"""Run folders of other versions: an older one is brought up to date, a newer one refused."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from killed_run import SETTINGS, seconds_of
from stub_executor import TASK, StubExecutor

from agents.drive import optimize
from agents.settings import RunSettings
from agents.upgrade import STEPS, upgrade
from memory.files import RunFolderError
from memory.runs import FORMAT, RunFolder
from tools.errors import InfrastructureError


def rewrite(run: RunFolder, **fields: object) -> None:
    """Change `config.json`; None takes a field out."""
    config = json.loads((run.path / "config.json").read_text()) | fields
    (run.path / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


async def play(run: RunFolder, iterations: int) -> list[str]:
    """Play on to so many iterations; the kernels that were judged now."""
    executor = StubExecutor(seconds_of)
    budgets = SETTINGS.budgets.model_copy(update={"iterations": iterations})
    await optimize(TASK, RunSettings(budgets=budgets), run, executor, lambda _: None)
    return executor.judged


def test_each_format_has_a_step_to_the_next() -> None:
    assert list(STEPS) == list(range(1, FORMAT))


async def test_a_folder_of_format_1_goes_on_under_any_name(tmp_path: Path) -> None:
    """Format 1 had no number, and kept its checkpoints under the folder's name."""
    run = RunFolder.create(tmp_path, "old", {"version": "0.1.0"})
    await play(run, 2)
    with sqlite3.connect(run.path / "state.sqlite") as database:
        for table in ("checkpoints", "writes"):
            database.execute(f"UPDATE {table} SET thread_id = 'the-old-name'")
    events = (run.path / "events.jsonl").read_text()
    (run.path / "events.jsonl").write_text(events.replace('"call"', '"was_called"').replace('"v":', '"was_v":'))
    for path in run.path.glob("attempts/*/attempt.json"):
        path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "call"}))
    rewrite(run, format=None, thread=None)
    moved = run.path.rename(tmp_path / "moved")
    judged = await play(RunFolder(moved), 4)
    again = RunFolder(moved)
    assert again.config()["format"] == FORMAT and again.config()["thread"] == "the-old-name"
    assert (again.outcome() or {})["iterations"] == 4
    assert len(judged) == 3, "two new ones and the winner afresh"
    assert len({a.kernel_id for a in again.attempts()}) == len(again.attempts()) == 5


async def test_a_folder_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "new", {"version": "9.1.0"})
    rewrite(run, format=FORMAT + 1)
    before = (run.path / "config.json").read_text()
    with pytest.raises(InfrastructureError, match=r"was written by warpsmith 9\.1\.0 in format"):
        await play(run, 2)
    assert (run.path / "config.json").read_text() == before and not (run.path / "events.jsonl").exists()


@pytest.mark.parametrize("number", ["two", 0, None, 1.5])
def test_a_format_that_makes_no_sense_is_a_damaged_folder(tmp_path: Path, number: object) -> None:
    run = RunFolder.create(tmp_path, "odd", {})
    (run.path / "config.json").write_text(json.dumps({"format": number}))
    with pytest.raises(RunFolderError, match="no format that is known"):
        upgrade(run)
