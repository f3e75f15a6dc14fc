"""What a run waits for, in a session and in plain lines; what was given and is not heeded; the pane of money."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from session_pilot import PATIENCE, seconds_of, started, until
from stub_executor import TASK, StubExecutor

from agents.events import Event
from agents.settings import Budgets, RunSettings
from agents.steering_actions import EditKernel, Fork, Hint
from agents.steering_box import give
from app import live
from app.configuration import Asked, configure
from app.doing import Doing
from app.event_lines import line
from app.log_lines import log_line
from app.optimize import Prepared
from app.quantities import span
from app.session.app import SessionApp
from app.session.driver import Driver
from app.session.headline import headline
from app.session.lines import Lines, folded
from app.session.money import money_lines
from app.session.story import Story
from memory.runs import RunFolder

MODELS = {"planner": "local:mini", "coder": "local:mini", "analyst": "builtin:autotune"}
BUDGETS: dict[str, Any] = {"iterations": 10, "wall_time": 600.0, "dollars": None, "tokens": None}
BEGUN = {"run": "r", "task": "t", "target": "cpu", "models": MODELS, "budgets": BUDGETS}
AT = "2026-01-01T00:00:00Z"
AT_SECONDS = 1767225600.0


def story(*lines: tuple[str, dict[str, Any]]) -> Story:
    """A run of these events."""
    told = Story()
    for kind, fields in (("run_started", BEGUN), *lines):
        told.take({"v": 2, "event": kind, "time": AT, **fields})
    return told


ITERATION = ("iteration_started", {"iteration": 1, "iterations": 10})
CALL = (
    "model_called",
    {"role": "coder", "model": "local:mini", "stop": "tools", "input_tokens": 5, "output_tokens": 1},
)
WAITS: list[tuple[tuple[str, dict[str, Any]], str]] = [
    (ITERATION, "planner: waiting for local:mini"),
    (("hypothesis", {"iteration": 1, "change": "tile"}), "coder: waiting for local:mini: tile"),
    (("tool_called", {"role": "coder", "tool": "run"}), "coder: waiting for local:mini"),
    (("tool_called", {"role": "analyst", "tool": "profile"}), "analyst: profile"),
    (CALL, "coder: local:mini answered; what it asked for is carried out"),
    (("model_changed", {"role": "coder", "after": "a:b"}), "coder: waiting for a:b"),
]


@pytest.mark.parametrize(("line", "words"), WAITS)
def test_what_is_waited_for_is_said_with_how_long(line: tuple[str, dict[str, Any]], words: str) -> None:
    told = story(ITERATION, line)
    assert told.now(AT_SECONDS + 1) == words and told.now(AT_SECONDS + 40) == f"{words}, 40 s"
    assert f"{words}, 40 s" in headline(told, 400, told.now(AT_SECONDS + 40)).plain
    doing = Doing()
    for kind, fields in (("run_started", BEGUN), line):
        doing.take(kind, fields)
    assert str(doing) == words


def test_who_has_begun_to_speak_is_no_longer_waited_for() -> None:
    told = story(ITERATION)
    told.hear(["coder"])
    assert told.doing == "planner: waiting for local:mini"
    told.hear(["planner"])
    assert told.now(AT_SECONDS + 40) == "planner: hears local:mini, 40 s"


async def test_plain_lines_say_what_goes_on_when_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SILENT", 0.01)
    out = io.StringIO()
    with live.Lines(Console(file=out, width=200)) as lines:
        for kind, fields in (("run_started", BEGUN), ITERATION):
            lines.show(Event(event=kind, fields=fields))
        end = asyncio.get_running_loop().time() + PATIENCE
        while out.getvalue().count("planner: waiting for local:mini") < 2:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.01)
        fields = {"action": "pause", "about": {}}
        lines.show(Event(event="steered", fields=fields, bound={"run": "r7"}))
    assert "paused: `warpsmith steer r7 resume` goes on" in out.getvalue()
    assert lines._timer is None


def test_the_pane_of_money_says_first_what_one_asks_first() -> None:
    ended = {"iteration": 2, "elapsed": 100.0, "time_left": 400.0, "stale": 0, "iterations": 10, "best": None}
    told = story(ITERATION, CALL, ("iteration_ended", ended))
    told.calls["builtin:autotune", "coder"] = 17
    about: dict[str, Any] = {"limits": {"iterations": 4}}
    told.take({"event": "steered", "id": "b", "action": "budget", "iteration": 3, "about": about})
    told.take({"event": "steered", "id": "h", "action": "hint", "iteration": 3, "about": {"text": "rows are long"}})
    lines = [line.plain for line in money_lines(told, 46, 100.0)]
    assert f"left       about {span(100.0)}" in lines, "two of four iterations are left"
    assert any("rows are long" in line for line in lines[:12]), lines
    assert any("money unknown" in line for line in lines) and not any("$0.00" in line for line in lines)
    coder = " ".join(lines[next(n for n, line in enumerate(lines) if line.startswith("coder")) :])
    assert "1 call, 17 calls by" in coder and lines.index("What you said") < lines.index("Budgets") < 4


async def test_what_was_given_stands_in_pane_5_until_it_is_heeded(tmp_path: Path) -> None:
    """Whoever gave it; a run that ended heeds nothing."""
    driver = started(tmp_path)
    driver.stop()
    driver.join(PATIENCE)
    edit = EditKernel(parent="a0", files={"kernel.cpp": "x"}, defines={}, flags=(), note="wider")
    for action in (Hint(text="rows are long"), edit, Fork(attempt="a0")):
        command = give(driver.run.path, action)
    app = SessionApp(driver.run)
    async with app.run_test(size=(160, 48)) as pilot:
        pane = app.session.query_one("#money-body", Lines)

        def says(*texts: str) -> bool:
            return [line.plain for line in pane.lines[1 : len(texts) + 1]] == [f"- {text}" for text in texts]

        await until(pilot, lambda: says("hint rows are long", "edit of a0: wider", "fork a0"))
        assert pane.lines[0].plain == "Given, not yet heeded"
        app.session.story.take({"event": "steered", "id": command.id, "action": "fork", "iteration": 1, "about": {}})
        await until(
            pilot, lambda: says("hint rows are long", "edit of a0: wider", *()) and "fork" not in str(pane.lines[3])
        )


def test_what_is_set_in_stays_so_when_it_is_folded() -> None:
    rows = [line.plain for line in folded("for (;;) {\n    x = 1;\n}\n" + " " * 90 + "far", 20)]
    assert rows == ["for (;;) {", "    x = 1;", "}", " " * 10 + "far"]


def test_of_a_run_that_no_process_works_on_no_activity_is_told() -> None:
    told = story(ITERATION)
    told.see(at_work=False)
    line = headline(told, 400, told.now(AT_SECONDS + 40)).plain
    assert "STOPPED" in line and "waiting for" not in line and "waiting for" not in told.idle
    told.see(at_work=True)
    assert told.now(AT_SECONDS + 40) == "planner: waiting for local:mini, 40 s"


def test_past_the_time_limit_it_is_said_when_a_hanging_call_is_let_go() -> None:
    told = story(ITERATION)

    def says(elapsed: float) -> str:
        return " ".join(line.plain for line in money_lines(told, 80, elapsed))

    assert "over" not in says(600.0)
    assert f"over; a hanging call is let go in {span(20.0)}" in says(700.0)
    assert "let go now" in says(800.0)
    told.see(at_work=False)
    assert "let go" not in says(700.0)


async def test_the_report_is_there_once_the_run_ended_also_before_the_session_is_left(tmp_path: Path) -> None:
    settings = RunSettings(budgets=Budgets(iterations=1, near_limit=None))
    asked = Prepared(TASK, settings, StubExecutor(seconds_of), configure(Asked(), {}, tmp_path), {})
    driver = Driver(asked, RunFolder.create(tmp_path / "runs", "stub", {}))
    driver.start()
    app = SessionApp(driver.run, driver)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and not driver.is_alive)
        assert "</html>" in (driver.run.path / "report.html").read_text()
    assert driver.error is None


@pytest.mark.parametrize(("count", "words"), [(0, "0 attempts"), (1, "1 attempt"), (2, "2 attempts")])
def test_attempts_are_counted_in_words_as_many_as_they_are(count: int, words: str) -> None:
    fields = {"run": "r", "attempts": count, "changes": {}}
    assert f"after {words}: opening" in line(Event(event="run_resumed", fields=fields))
    assert log_line({"event": "run_resumed", **fields}).endswith(f"after {words}")
