"""Lines that a key begins: what a person writes there is understood however much of what stood there is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from session_pilot import Noting, follows, given, notified, press, shown, stub_run, until, write

from app.session.meant import readings
from memory.runs import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return asyncio.run(stub_run(tmp_path, iterations=1))


@pytest.mark.parametrize(
    ("begun", "written", "meant"),
    [
        ("", "fork a3", "fork a3"),
        ("forbid ", "forbid LANES=16", "forbid LANES=16"),
        ("forbid ", "LANES=16", "forbid LANES=16"),
        ("forbid ", "forbid forbid LANES=16", "forbid LANES=16"),
        ("forbid ", " allow LANES=16", "allow LANES=16"),
        ("hint ", "rows are short", "hint rows are short"),
        ("reject ", "reject reject", "reject"),
        ("approval ", "off", "approval off"),
        ("budget ", "dollars=5", "budget dollars=5"),
        ("model coder ", "model coder a:b", "model coder a:b"),
        ("model coder ", "model coder planner a:b", "model planner a:b"),
        ("model coder ", "model coder coder a:b http://x", "model coder a:b http://x"),
        ("model coder ", "model coder model planner a:b", "model planner a:b"),
        ("model coder ", "planner a:b", "model planner a:b"),
        ("model coder ", "model all a:b", "model all a:b"),
        ("model coder ", "model a:b", "model coder a:b"),
        ("model coder ", "a:b", "model coder a:b"),
        ("model coder ", "a:b http://x", "model coder a:b http://x"),
        ("model coder ", "pause", "pause"),
    ],
)
def test_a_line_is_read_with_the_name_of_its_action_and_without(begun: str, written: str, meant: str) -> None:
    assert readings(begun, written)[0] == meant


async def test_a_line_that_was_emptied_and_written_anew_does_what_it_says(run: RunFolder) -> None:
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and follows(app))
        line = app.session.write._line
        for key, text in (
            ("x", "UNROLL=77"),
            ("x", "forbid UNROLL=78"),
            ("h", "pin threads to cores"),
            ("m", "planner builtin:autotune"),
            ("A", "off"),
        ):
            await press(pilot, key, "ctrl+u")
            assert line.value == ""
            await write(pilot, text)
            assert app.session.dialog is None, shown(app)
        await press(pilot, "m")
        await write(pilot, f"{line.value}planner builtin:autotune")
        await press(pilot, "m", *"planner", "enter")
        assert app.session.write.is_open and "is not written like that" in shown(app)
        await write(pilot, "builtin:autotune")
        assert app.session.dialog is None
    told = [[value for name, value in action.items() if name != "address"] for action in given(run)]
    assert told == [
        ["forbid", "UNROLL=77"],
        ["forbid", "UNROLL=78"],
        ["hint", "pin threads to cores"],
        ["model", "planner", ["builtin:autotune"]],
        ["approval", False],
        ["model", "planner", ["builtin:autotune"]],
        ["model", "coder", ["builtin:autotune"]],
    ]


async def test_a_forbid_that_meets_nothing_yet_says_so(run: RunFolder) -> None:
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and follows(app))
        await press(pilot, "x", "enter")
        assert not any("No plan so far" in text for text in notified(app))
        await press(pilot, "x", *"LANES=16", "enter")
        assert any("No plan so far" in text for text in notified(app))
    assert [action["idea"] for action in given(run)][1] == "LANES=16"
