"""A plan that waits for a word: all of it can be read and reached, and it waits on the screen as long as it does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from session_pilot import PATIENCE, press, resized, seconds_of, settled, shown, stub_run, until
from stub_executor import TASK, StubExecutor

from agents.settings import Budgets, RunSettings
from app.configuration import Asked, configure
from app.optimize import Prepared
from app.session.app import SessionApp
from app.session.driver import Driver
from app.session.story import Story
from memory.runs import RunFolder

PLAN: list[dict[str, Any]] = [
    {
        "change": "Let every thread keep a tile of 64 rows in registers, and stage its columns through shared memory",
        "idea": "The rows are read four times now, and [bold]the roofline[/] says that memory bounds the kernel",
        "metric": "seconds",
        "expected": "between -30 % and -35 % on the longer rows",
        "parent": "a0",
    },
    {"change": "two threads", "idea": "a core is idle", "metric": "ipc", "expected": "+5 %", "parent": "a1"},
]


def plan_told(iteration: int) -> list[dict[str, Any]]:
    ideas = [{"event": "hypothesis", "iteration": iteration, "lessons": [], **idea} for idea in PLAN]
    return [*ideas, {"event": "plan_waits", "iteration": iteration, "hypotheses": PLAN}]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """One whose plan waits."""
    run = asyncio.run(stub_run(tmp_path, iterations=3))
    log = run.path / "events.jsonl"
    kept = [line for line in log.read_text().splitlines() if json.loads(line)["event"] not in ("stopping", "run_ended")]
    fresh = [json.dumps(json.loads(kept[-1]) | line) for line in plan_told(4)]
    log.write_text("\n".join([*kept, *fresh]) + "\n")
    return run


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_all_of_a_plan_that_waits_is_read_where_the_person_looks(run: RunFolder, size: tuple[int, int]) -> None:
    app = SessionApp(run)
    async with app.run_test(size=size) as pilot:
        plan = app.session.plan
        await until(pilot, lambda: plan.idea is not None, "a cursor that goes to the plan")
        assert plan.idea is app.session.story.ideas[-2] and plan.chosen == "a0"
        await press(pilot, "home")
        rows: dict[int, str] = {}
        for _ in range(60):
            top, region = plan.scroll_offset.y, plan.region
            for number, row in enumerate(shown(app).split("\n")[region.y : region.bottom]):
                rows[top + number] = row[region.x : region.right].rstrip(" ▄▃▁▂▅▆▇█▔")
            reached = plan.cursor_line
            await press(pilot, "down")
            if plan.cursor_line == reached:
                break
        text = " ".join(" ".join(rows[number] for number in sorted(rows)).split())
        for told, name in (("change", "change"), ("why", "idea"), ("expects", "expected"), ("from", "parent")):
            for idea in PLAN:
                before = {"seconds": "time ", "ipc": "ipc "}[idea["metric"]] if name == "expected" else ""
                assert f"{told}: {before}{idea[name]}" in text, text
        assert "a approves the plan" in text


async def test_the_hypothesis_under_the_cursor_is_in_the_verdict_pane_and_is_what_x_forbids(run: RunFolder) -> None:
    app = SessionApp(run)
    async with app.run_test(size=(80, 24)) as pilot:
        plan = app.session.plan
        await until(pilot, lambda: plan.idea is not None)
        await press(pilot, "down", "3")
        for size in ((80, 24), (120, 40)):
            await resized(pilot, *size)
            text = " ".join(line.plain for line in app.session.query_one("#verdict-body").lines)  # type: ignore[attr-defined]
            text = " ".join(text.split())
            assert all(str(PLAN[0][name]) in text for name in ("change", "idea", "expected", "parent"))
            assert "waits for your word" in text
        await press(pilot, "x")
        assert app.session.write._line.value == f"forbid {PLAN[0]['change']}"
        await press(pilot, "escape", "1", "home")
        await until(pilot, lambda: plan.idea is None)
        assert "a0 kept" in " ".join(shown(app).split())


def waiting() -> Story:
    story = Story()
    begun = {"run": "r", "task": "t", "target": "cpu", "models": dict.fromkeys(("planner", "coder", "analyst"), "l:m")}
    begun |= {"event": "run_started", "budgets": {"iterations": 9}}
    for line in (begun, {"event": "iteration_started", "iteration": 4, "iterations": 9}, *plan_told(4)):
        story.take(line)
    assert story.state == "plan waits for you"
    return story


JUDGED = {"attempt": "a7", "iteration": 4, "parent": "a0", "outcome": "kept"}
ENDS: list[tuple[dict[str, Any], str]] = [
    ({"event": "steered", "action": "approval", "about": {"on": False}}, "coder: waiting for l:m: two threads"),
    ({"event": "steered", "action": "approve", "about": {"decided": 4}}, "coder: waiting for l:m: two threads"),
    ({"event": "steered", "action": "reject", "about": {"decided": 4, "why": ""}}, "planner: waiting for l:m"),
    ({"event": "steered", "action": "plan", "about": {"decided": 4, "hypotheses": []}}, ""),
    ({"event": "steered", "action": "accept", "about": {}}, ""),
    ({"event": "steered", "action": "stop", "about": {}}, ""),
    ({"event": "steered", "action": "policy", "about": {"run": "other"}}, ""),
    ({"event": "attempt_judged", **JUDGED}, ""),
    ({"event": "iteration_ended", "iteration": 4, "iterations": 9, "elapsed": 1.0, "stale": 0, "best": "a0"}, ""),
    ({"event": "run_ended", "reason": "user"}, ""),
]


@pytest.mark.parametrize(("line", "doing"), ENDS)
def test_a_plan_waits_no_longer_once_something_came_of_it(line: dict[str, Any], doing: str) -> None:
    story = waiting()
    story.take(line)
    assert story.state != "plan waits for you" and not story.waiting
    assert not any(idea.mark == "waits" for idea in story.ideas)
    assert story.doing == doing or not doing


@pytest.mark.parametrize(
    "line",
    [
        {"event": "steered", "action": "hint", "about": {"text": "x"}},
        {"event": "steered", "action": "approval", "about": {"on": True}},
        {"event": "attempt_judged", **JUDGED, "person": "by hand"},
    ],
)
def test_it_waits_as_long_as_nothing_did(line: dict[str, Any]) -> None:
    story = waiting()
    story.take(line)
    assert story.state == "plan waits for you"


async def test_a_plan_goes_on_when_approval_is_switched_off(tmp_path: Path) -> None:
    settings = RunSettings(budgets=Budgets(near_limit=None), approve=True)
    asked = Prepared(TASK, settings, StubExecutor(seconds_of), configure(Asked(), {}, tmp_path), {})
    driver = Driver(asked, RunFolder.create(tmp_path / "runs", "stub", {}))
    driver.start()
    app = SessionApp(driver.run, driver)
    story = app.session.story
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "PLAN WAITS" in shown(app))
        await press(pilot, "A", "enter")
        await until(pilot, lambda: len(story.attempts) > 2, "a plan that is carried out")
        await press(pilot, "p")
        await until(pilot, lambda: "PAUSED" in shown(app) and not story.waiting)
        await settled(pilot)
        await press(pilot, "q", "y")
        await until(pilot, lambda: not driver.is_alive)
    driver.join(PATIENCE)
    assert driver.error is None
