"""What is seen at once, and what stays seen where there is little room."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from session_pilot import press, resized, settled, shown, stub_run, until
from session_terminal import Watched
from test_session_doing import BEGUN, ITERATION, MODELS, story

from agents.events import Journal
from agents.steering_actions import Hint
from agents.steering_box import new_command
from app.session.app import SessionApp
from app.session.exports import Export
from app.session.headline import headline, shortened
from app.session.lines import Lines
from app.session.money import LONGEST_HINT, money_lines
from app.session.screen import SessionScreen
from app.session.story import Story
from app.session_start import attach_to
from memory.runs import RunFolder

JUDGED: dict[str, Any] = {
    "iteration": 1,
    "outcome": "kept",
    "share_of_limit": 0.45,
    "seconds": 1.234e-3,
    "parent": "a0",
}
BEST = [
    ITERATION,
    ("attempt_judged", JUDGED | {"attempt": "a0", "parent": None, "iteration": 0}),
    ("attempt_judged", JUDGED | {"attempt": "a12", "seconds": 1.1e-3}),
    ("best_changed", {"attempt": "a12"}),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """One that ended, and that no test changes."""
    return asyncio.run(stub_run(tmp_path_factory.mktemp("ended")))


def words_of(app: SessionApp, name: str) -> str:
    """What is seen in that pane."""
    region = app.session.query_one(name).region
    rows = [row[region.x : region.right] for row in shown(app).split("\n")[region.y : region.bottom]]
    return " ".join(" ".join(rows).replace("│", " ").split())


# --- the first line ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
@pytest.mark.parametrize("doing", ["planner: waiting for local:mini", "coder: waiting for mb:human: " + "tile " * 9])
def test_what_goes_on_and_for_how_long_is_told_at_any_width(width: int, doing: str) -> None:
    told = headline(story(*BEST), width, f"{doing}, 40 s").plain
    assert len(told) <= width and told.startswith(" RUNNING ")
    assert ("best a12" in told and doing[:20] in told and told.endswith(", 40 s")) or width < 80
    assert "1/10" in told and ("of limit" in told) >= (width >= 160 and "tile" not in doing)


def test_of_a_run_that_ended_the_gain_is_told() -> None:
    told = headline(story(*BEST, ("run_ended", {"reason": "user"})), 80, "because").plain
    assert told.startswith(" ENDED ") and "1.12x the start in the search" in told and "because" not in told
    failed = headline(
        story(*BEST, ("run_failed", {"message": "the disk is full", "advice": ""})), 80, "the disk is full"
    )
    assert "the disk is full" in failed.plain


def test_how_long_is_never_what_is_cut() -> None:
    assert shortened("coder: waiting for a model: tile, and more, 2 min", 40).endswith("…, 2 min")
    assert shortened("short, 3 s", 40) == "short, 3 s"


# --- at once ----------------------------------------------------------------------------------------------------------


async def test_a_run_is_never_shown_as_what_it_is_not_while_it_is_read(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    tell = SessionScreen._tell_doing

    def told(screen: SessionScreen) -> None:
        tell(screen)
        seen.append(screen._headline.plain)

    monkeypatch.setattr(SessionScreen, "_tell_doing", told)
    monkeypatch.setattr("app.session.screen.AT_ONCE", 1e-3)
    app = SessionApp(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
    assert seen[0].startswith(" READING ") and "reading what happened so far" in seen[0]
    assert {line.split()[0] for line in seen} == {"READING", "ENDED"}


async def test_a_run_that_has_told_nothing_is_starting(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "fresh", {})
    log = Journal(run.path / "events.jsonl", lambda _: None)
    app = SessionApp(run)
    with log:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: "STARTING" in shown(app))
            log.tell("run_started", **BEGUN, parallel=1)
            await until(pilot, lambda: "RUNNING" in shown(app))
            opening = "opening the task, measuring the machine and the baseline"
            for pane in ("#plan-pane", "#verdict"):
                await until(pilot, lambda pane=pane: opening in words_of(app, pane), opening)  # type: ignore[misc]
            log.tell("task_opened", seconds=1.0, sandbox="", notes=[], workloads=[])
            for pane in ("#plan-pane", "#verdict"):
                await until(pilot, lambda pane=pane: "judging the starting kernel" in words_of(app, pane))  # type: ignore[misc]
            await resized(pilot, 80, 24)
            assert "judging the starting kernel" in words_of(app, "#plan-pane")
            assert "judging the starting kernel" in shown(app).split("\n")[0]


def test_it_is_said_at_once_that_the_screen_comes(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr("app.session_start.has_screen", lambda: True)
    monkeypatch.setattr(SessionApp, "run", lambda _: said.append(capsys.readouterr().out))
    assert attach_to(str(run.path), run.path.parent, plain=False, as_json=False) == 0
    assert said == [f"reading   {run.id} …\n"]


# --- the panes --------------------------------------------------------------------------------------------------------


async def test_at_120_columns_the_plan_tells_what_was_tried(run: RunFolder) -> None:
    app = SessionApp(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await settled(pilot)
        text = words_of(app, "#plan-pane")
        tried = [tried for tried in app.session.story.attempts.values() if tried.idea is not None]
        assert tried and all(each.idea is not None and each.idea.change[:8] in text for each in tried), text


async def test_at_120_by_40_what_a_person_said_and_exports_is_seen_without_scrolling(run: RunFolder) -> None:
    app = SessionApp(run)
    async with app.run_test(size=(120, 40)) as pilot:
        told = app.session.story
        await until(pilot, lambda: told.ended is not None)
        told.exports.append(Export("a1", "sources", Path("/out"), doing="build"))
        told.hints.append("rows are short")
        told.touch()
        await until(pilot, lambda: "rows are short" in words_of(app, "#money"))
        assert "a1 as sources" in words_of(app, "#money")
        await press(pilot, "5")
        assert app.session.query_one("#money-body", Lines).scroll_offset.y == 0


def plain(told: Story, width: int = 60) -> list[str]:
    return [line.plain for line in money_lines(told, width, 0.0)]


def test_what_a_person_gave_and_said_comes_before_the_budgets() -> None:
    told = story(("steered", {"id": "0" * 12, "action": "hint", "iteration": 1, "about": {"text": "x" * 900}}))
    told.given.hand([new_command(Hint(text="not yet"))])
    told.exports.append(Export("a1", "sources", Path("/out"), doing="build"))
    for question in ("first?", "second?"):
        told.take({"event": "answered", "id": "1" * 12, "question": question, "answer": "so", "by": "l:m"})
    lines = plain(told)
    heads = [lines.index(h) for h in ("Given, not yet heeded", "Exported", "What you said", "Budgets", "Asked before")]
    assert heads == sorted(heads) and sum(line.count("x") for line in lines) <= LONGEST_HINT + 20
    assert lines.index("you asked  second?") < lines.index("Budgets") < lines.index("you asked  first?")
    assert not any("You said nothing" in line for line in lines) and "You said nothing yet" in " ".join(plain(story()))


@pytest.mark.parametrize("planner", ["mb:human", "builtin:autotune"])
def test_what_was_spent_is_true_of_who_plays(planner: str) -> None:
    told = story()
    told.models = dict.fromkeys(MODELS, "builtin:autotune") | {"planner": planner}
    said = " ".join(plain(told))
    assert ("built-in tuner asks no provider" in said) is (planner == "builtin:autotune")
    assert ("nothing yet: no provider has answered" in said) is (planner == "mb:human")


def test_the_screen_is_as_large_as_its_terminal_whatever_the_environment_says(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    terminal = Watched(run)
    try:
        terminal.send(b"", until=lambda screen: "2 kernel: a4" in screen)
    finally:
        terminal.process.kill()
