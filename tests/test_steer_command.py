"""`warpsmith steer`: what it says of an action that is heeded at once, later, by another process, or not in time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from scripted_model import says
from scripted_run import Stage, judge, proposal, set_up
from stub_executor import KERNEL
from typer.testing import CliRunner

from agents import steering_actions as acts
from agents.control import Control
from agents.events import Journal
from agents.steering import NOT_YET
from agents.steering_actions import ACTIONS, Action
from app import cli_steer
from app import steer as steering
from app.exits import DONE, FAILED, REJECTED
from app.steer import steer
from memory.runs import RunFolder
from tests.test_parting import once
from tests.test_steering_resumed import (
    ABOUT_ATTEMPTS,
    BY_HAND,
    HANDS_OFF,
    TO_SEARCH,
    Held,
    answered,
    read_or_answer,
)

REFUSED = ("approve", "plan", "reject", "policy")
"""No plan waits, and the policy is that one already."""
EVERY: dict[str, Action] = {action.action: action for action in (*HANDS_OFF, *TO_SEARCH, *ABOUT_ATTEMPTS, BY_HAND)}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(steering, "SILENT", 0.0)
    made = set_up(tmp_path, monkeypatch)
    made.script([proposal("a"), proposal("b")], [judge(16), says("ok"), judge(32), says("ok")], [read_or_answer] * 4)
    return made


async def held_at(stage: Stage, number: int) -> tuple[asyncio.Task[Any], Held]:
    """The run while its kernel of that number is judged."""
    stage.executor = held = Held(number)
    playing = asyncio.create_task(stage.play())
    await once(held.asked, playing)
    return playing, held


async def given(stage: Stage, action: Action, patience: float | None = None, as_json: bool = False) -> int:
    run = RunFolder(stage.run.path)
    return await asyncio.to_thread(steer, run, action, patience=patience, as_json=as_json)


def test_all_actions_are_tried_but_those_that_need_a_plan_or_end_the_run() -> None:
    assert ACTIONS.keys() - EVERY.keys() == {"plan", "reject", "accept", "stop"}


@pytest.mark.parametrize("number", [1, 2])
async def test_each_action_gets_a_true_answer_while_a_run_searches_and_while_it_ends(
    stage: Stage, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    playing, held = await held_at(stage, number)
    left = [] if number == 1 else [acts.EditKernel, acts.Pause, acts.GoOn]
    for action in EVERY.values():
        if number == 1 and action is BY_HAND:
            continue  # it waits for the judge, which is held
        code = await given(stage, action)
        said = capsys.readouterr()
        if isinstance(action, tuple(left)):
            assert (code, said.out.partition("; ")[2]) == (DONE, "it is ending: `warpsmith resume` will heed it\n")
        else:
            assert code == (REJECTED if action.action in REFUSED else DONE), said
            assert "given to" not in said.out
    assert len(answered(stage)) == len(EVERY) - (1 if number == 1 else len(left))
    held.go.set()
    await playing
    code = await given(stage, BY_HAND)
    assert code == DONE and "; no process works on it: `warpsmith resume` will heed it" in capsys.readouterr().out
    code = await given(stage, acts.Pause(), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (code, told["event"], told["at_work"], told["heeded_by"]) == (DONE, "given", False, "resume")
    await given(stage, acts.GoOn(), patience=0)
    stage.run, stage.control = RunFolder(stage.run.path), Control()
    await stage.play(iterations=2)
    assert len(answered(stage)) == len(EVERY) + (2 if number == 1 else 3)
    assert [attempt.person for attempt in stage.run.attempts() if attempt.person] == ["mine"]


async def test_it_says_what_it_waits_for_and_for_how_long_and_then_that_nothing_was_heard(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    playing, held = await held_at(stage, 1)
    assert await given(stage, BY_HAND, patience=0.3) == FAILED
    said = capsys.readouterr()
    first = said.err.splitlines()[0]
    assert first.startswith("waiting for your kernel to be judged, 0 s at most; Ctrl-C leaves it given. The run now: ")
    assert "coder: scripted:coder answered; what it asked for is carried out" in first
    assert "nothing was heard of it in 0 s, but its process (coder: scripted:coder answered; what it asked for is" in (
        said.out
    )
    again = asyncio.create_task(given(stage, acts.EditKernel(files={"kernel.cpp": KERNEL + "// again"}, note="again")))
    held.go.set()
    assert await again == DONE and "a kernel by hand (again) is a" in capsys.readouterr().out
    await playing
    assert {attempt.person for attempt in stage.run.attempts() if attempt.person} == {"mine", "again"}


async def test_a_process_that_goes_away_while_it_is_waited_for_is_not_waited_for_any_longer(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with Journal(stage.run.path / "events.jsonl", lambda _: None) as journal:
        journal.tell("lessons_failed", message="x")
        waiting = asyncio.create_task(given(stage, acts.Hint(text="rows are short")))
        while "waiting for the run to heed it, " not in capsys.readouterr().err:
            await asyncio.sleep(0.01)
    assert await waiting == DONE
    assert capsys.readouterr().out.endswith("; no process works on it: `warpsmith resume` will heed it\n")


def test_a_wait_that_is_no_time_is_refused_and_the_help_states_the_one_that_is_taken(stage: Stage) -> None:
    told = CliRunner().invoke(cli_steer.app, ["steer", str(stage.run.path), "pause", "--wait", "soon"])
    assert told.exit_code == FAILED and "--wait" in told.output
    helped = CliRunner().invoke(cli_steer.app, ["steer", "--help"], terminal_width=200)
    assert "10m" in helped.output and steering.WAIT == 600.0


def test_what_is_left_at_the_end_is_what_only_a_search_can_heed() -> None:
    assert set(NOT_YET["end"]) == {acts.EditKernel, acts.Pause, acts.GoOn} and not NOT_YET["search"]
