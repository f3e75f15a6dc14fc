"""A session that is left while a model hangs: what is said of the next key is what that key does."""

from __future__ import annotations

from pathlib import Path

import pytest
from session_pilot import PATIENCE, Noting, is_over, notified, press, seconds_of, shown, until
from stub_executor import TASK, StubExecutor

from agents.settings import Budgets, Models, RunSettings
from app.configuration import Asked, configure
from app.log_lines import log_line
from app.optimize import Prepared
from app.session.driver import Driver
from memory.runs import RunFolder
from tests.halting_server import Halting


@pytest.mark.parametrize(
    ("keys", "said", "handed"),
    [
        ("qyq", ("then the run ends", "q again drops it and ends the run"), False),
        ("dyq", ("takes the run over", "q again drops it and hands the run over", "Either way the run goes on"), True),
        ("dyd", ("takes the run over", "d or q again drops it and hands the run over"), True),
    ],
)
async def test_the_second_key_does_what_the_first_one_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str, said: tuple[str, ...], handed: bool
) -> None:
    taken: list[RunFolder] = []
    monkeypatch.setattr("app.session.wheel.hand_over", taken.append)
    async with Halting("responses") as model:
        settings = RunSettings(budgets=Budgets(near_limit=None), models=Models(coder="openai:m"))
        environ = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{model.url}/v1"}
        asked = Prepared(TASK, settings, StubExecutor(seconds_of), configure(Asked(), environ, tmp_path), {})
        driver = Driver(asked, RunFolder.create(tmp_path / "runs", "stub", {}))
        driver.start()
        app = Noting(driver.run, driver)
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, model.asked.is_set, "a model that hangs")
            await press(pilot, *keys[:2])
            (told,) = notified(app)
            assert all(words in told for words in said) and driver.is_alive
            line = shown(app).split("\n")[-1]
            assert ("Hands over once" if handed else "Ends once") in line and "q again: drop it, and" in line
            assert line.rstrip().endswith("at once")
            await press(pilot, keys[2])
            await until(pilot, lambda: is_over(app), "an end")
        await model.all_left()
    driver.join(PATIENCE)
    assert driver.error is None and taken == ([driver.run] if handed else [])
    end = RunFolder(driver.run.path).events()[-1]
    assert end["event"] == "run_ended" and ("handed over" in log_line(end)) is handed
