"""A time budget that is spent while something hangs: the run ends in order, and its winner is measured afresh."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agents import steering_actions as acts
from agents.control import Control
from agents.events import Event
from agents.limits import GRACE
from agents.models.retry import Stopping
from agents.settings import ROLES, Budgets, Role, RunSettings
from agents.steering_box import give
from memory.runs import RunFolder
from tests import parted_run
from tests.halting_server import Halting
from tests.llm_frames import Answer, frames
from tests.llm_server import LlmServer, status
from tests.parted_run import NEW
from tests.talking_run import Brain
from tests.test_parting import once
from tests.test_steering_resumed import OLD, Held, models_with

SPEAKS = Answer("Let me think about what the planner wants.")


class Leap(Stopping):
    """A clock that can be put forward. Waits for nothing else."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


def settings_with(role: Role, **budgets: Any) -> RunSettings:
    limits = {"iterations": 9, "near_limit": None, "patience": None} | budgets
    return RunSettings(budgets=Budgets.model_validate(limits), models=models_with(role, OLD))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "stub", {})


@pytest.fixture
def control() -> Control:
    made = Control()
    made.stopping = Leap()
    return made


def put_forward(control: Control, seconds: float) -> None:
    assert isinstance(control.stopping, Leap)
    control.stopping.ahead += seconds


@pytest.mark.parametrize(("role", "speaks"), [*((role, False) for role in ROLES), ("coder", True)])
async def test_a_limit_that_is_given_amid_the_run_and_long_over_ends_it_with_a_fresh_measurement(
    role: Role, speaks: bool, run: RunFolder, control: Control
) -> None:
    """What says nothing is let go at once, what speaks a minute later."""
    events: list[Event] = []
    said = next(i for i, event in enumerate(frames("responses", SPEAKS, 1)) if "Let me" in str(event)) + 1
    heard = asyncio.Event()
    with LlmServer(Brain()) as new:
        async with Halting("responses", said=said if speaks else None, answer=SPEAKS) as old:
            playing = asyncio.create_task(
                parted_run.talk(
                    run,
                    old.url,
                    new.url,
                    settings_with(role),
                    events.append,
                    control=control,
                    on_text=lambda who, _: heard.set() if who == role else None,
                )
            )
            await once(heard if speaks else old.asked, playing)
            put_forward(control, 600.0)
            give(run.path, acts.SetBudget(limits={"wall_time": 60.0}))
            if speaks:
                while not any(event.event == "steered" for event in events):
                    await asyncio.sleep(0.01)
                assert not playing.done() and not any(event.event == "model_failed" for event in events)
                put_forward(control, GRACE)
                give(run.path, acts.SetBudget(limits={"wall_time": 61.0}))
            outcome = await playing
            await old.all_left()
            assert old.left == 1
    assert outcome.reason == "wall_time" and outcome.final is not None
    assert [event.fields["fault"] for event in events if event.event == "model_failed"] == ["time"]
    assert [event.fields["reason"] for event in events if event.event == "stopping"] == ["wall_time"]


async def test_what_waits_to_be_tried_again_is_let_go_too(run: RunFolder, control: Control) -> None:
    def hear(event: Event) -> None:
        if event.event == "model_retried":
            put_forward(control, 600.0)
            give(run.path, acts.SetBudget(limits={"wall_time": 60.0}))

    with LlmServer(Brain()) as new, LlmServer(lambda _: status(503, {"retry-after": "100"})) as old:
        outcome = await parted_run.talk(run, old.url, new.url, settings_with("coder"), hear, control=control)
    assert outcome.reason == "wall_time" and outcome.final is not None


async def test_a_limit_from_the_beginning_is_measured_at_in_the_same_way(run: RunFolder, control: Control) -> None:
    """Of parallel coders all are let go. The limit is looked at again when a person gives any other one."""
    settings = settings_with("coder", wall_time=100.0).model_copy(update={"parallel": 2})
    with LlmServer(Brain(hypotheses=2)) as new:
        async with Halting("responses", wanted=2) as old:
            playing = asyncio.create_task(
                parted_run.talk(run, old.url, new.url, settings, lambda _: None, control=control)
            )
            await once(old.asked, playing)
            put_forward(control, 171.0)
            give(run.path, acts.SetBudget(limits={"tokens": 10**9}))
            outcome = await playing
            await old.all_left()
            assert old.left == 2
    assert outcome.reason == "wall_time" and outcome.final is not None


@pytest.mark.parametrize("last", [False, True])
async def test_a_judge_that_is_lost_is_cut_and_a_last_measurement_is_not(
    last: bool, run: RunFolder, control: Control
) -> None:
    """The kernel of the coder, or the winner."""
    events: list[Event] = []
    with LlmServer(Brain()) as new:
        executor = Held(2 if last else 1)
        playing = asyncio.create_task(
            parted_run.talk(
                run,
                new.url,
                new.url,
                settings_with("coder", iterations=1),
                events.append,
                control=control,
                executor=executor,
            )
        )
        await once(executor.asked, playing)
        for limit in (60.0, 61.0, 62.0):
            put_forward(control, 600.0)
            give(run.path, acts.SetBudget(limits={"wall_time": limit}))
            while str(limit) not in str([event.fields for event in events if event.event == "steered"]):
                await asyncio.sleep(0.01)
        if last:
            executor.go.set()
        outcome = await playing
    assert outcome.reason == ("iterations" if last else "wall_time") and (outcome.final is not None) == last


async def test_a_limit_that_is_raised_again_lets_the_run_go_on(run: RunFolder, control: Control) -> None:
    with LlmServer(Brain()) as new:
        async with Halting("responses") as old:
            settings = settings_with("coder", iterations=1)
            playing = asyncio.create_task(
                parted_run.talk(run, old.url, new.url, settings, lambda _: None, control=control)
            )
            await once(old.asked, playing)
            put_forward(control, 600.0)
            give(run.path, acts.SetBudget(limits={"wall_time": 3600.0}))
            give(run.path, acts.UseModel(role="coder", models=(NEW,)))
            outcome = await playing
    assert (outcome.reason, outcome.iterations) == ("iterations", 1)
