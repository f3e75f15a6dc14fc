"""A person's hand on a run that another process goes on with: what is given is heeded at once, wherever it goes on, and
what is shown of it meanwhile is true."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scripted_model import says
from scripted_run import Stage, judge, proposal, reading, set_up
from stub_executor import KERNEL, StubExecutor

from agents import steering_actions as acts
from agents.control import Control
from agents.events import Event
from agents.models.base import Message, Reply
from agents.settings import ROLES, Budgets, Models, Role, RunSettings
from agents.steering_actions import Action, Command
from agents.steering_box import give
from app.doing import Doing
from app.session.story import Story
from memory.runs import RunFolder
from tests import parted_run
from tests.halting_server import Halting
from tests.llm_server import LlmServer
from tests.parted_run import NEW
from tests.talking_run import Brain
from tests.test_parting import once
from tests.test_swap import in_order, paid
from tools.facts import TaskFacts
from tools.records import Kernel, TargetName, Verdict
from tools.task import TaskSource

OLD = "openai:m"
HANDS_OFF: tuple[Action, ...] = (
    acts.Hint(text="rows are short"),
    acts.Withdraw(text="rows are short"),
    acts.Forbid(idea="UNROLL=64"),
    acts.Allow(idea="UNROLL=64"),
    acts.Approval(on=True),
    acts.Approval(on=False),
    acts.Approve(),
    acts.SetBudget(limits={"tokens": 1_000_000}),
    acts.UseModel(role="analyst", models=("scripted:analyst",)),
)
"""What needs no attempt and ends nothing."""
TO_SEARCH: tuple[Action, ...] = (
    acts.Pause(),
    acts.GoOn(),
)
ABOUT_ATTEMPTS: tuple[Action, ...] = (
    acts.Pin(attempt="a0"),
    acts.Unpin(),
    acts.Fork(attempt="a0"),
    acts.SetPolicy(policy="strict"),
    acts.Ask(question="how does it stand?"),
)
BY_HAND = acts.EditKernel(files={"kernel.cpp": KERNEL + "// mine"}, defines={"BLOCK": "64"}, note="mine")


def models_with(role: Role, spec: str) -> Models:
    """`spec` in that role, all others as `NEW`."""
    return Models.model_validate({each: spec if each == role else NEW for each in ROLES})


def doing_of(events: Sequence[Event]) -> str:
    """What lines and panels say of the last process."""
    doing = Doing()
    for event in events:
        doing.take(event.event, event.bound | event.fields)
    return doing.text


def shown_of(run: RunFolder) -> str:
    """What a session says."""
    story = Story()
    for line in RunFolder(run.path).events():
        story.take(line)
    return story.doing


# --- a model is waited for --------------------------------------------------------------------------------------------


async def killed_while_it_hangs(run: RunFolder, old: Halting, new: LlmServer) -> None:
    """In a process of its own."""
    root = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": f"{root}:{root / 'tests'}"}
    command = [sys.executable, "-P", "-m", "tests.parted_run", str(run.path), old.url, new.url, "never"]
    child = await asyncio.create_subprocess_exec(*command, env=environment, cwd=root)
    await once(old.asked, asyncio.create_task(child.wait()))
    child.kill()
    await child.wait()


async def stopped_while_it_hangs(run: RunFolder, old: Halting, new: LlmServer) -> None:
    control = Control()
    settings = RunSettings.model_validate(run.config()["settings"])
    playing = asyncio.create_task(parted_run.talk(run, old.url, new.url, settings, lambda _: None, control=control))
    await once(old.asked, playing)
    control.stop(grace=0.0)
    assert (await playing).reason == "user"


@pytest.mark.parametrize(
    ("role", "leave"),
    [*((role, stopped_while_it_hangs) for role in ROLES), ("coder", killed_while_it_hangs)],
)
async def test_a_model_that_hangs_after_a_resumption_is_let_go_at_once_and_waited_for_in_words(
    role: Role, leave: Any, tmp_path: Path
) -> None:
    budgets = Budgets(iterations=1, near_limit=None, patience=None)
    settings = RunSettings(budgets=budgets, models=models_with(role, OLD))
    run = RunFolder.create(tmp_path, "stub", {"settings": settings.model_dump(mode="json")})
    events: list[Event] = []
    with LlmServer(Brain()) as new:
        async with Halting("responses") as old:
            await leave(run, old, new)
        give(run.path, acts.Hint(text="given while nobody worked on it"))
        async with Halting("responses") as old:
            resumed = RunFolder(run.path)
            playing = asyncio.create_task(parted_run.talk(resumed, old.url, new.url, settings, events.append))
            await once(old.asked, playing)
            assert doing_of(events).startswith(f"{role}: waiting for {OLD}")
            assert shown_of(run).startswith(f"{role}: waiting for {OLD}")
            give(run.path, acts.SetBudget(limits={"tokens": 1_000_000}))
            give(run.path, acts.UseModel(role=role, models=(NEW,)))
            outcome = await playing
            await old.all_left()
            assert (old.left, len(old.requests)) == (1, 1)
        assert outcome.iterations == 1 and in_order(resumed, 1)
        assert paid(resumed) == new.total
    told = [event.fields["action"] for event in events if event.event == "steered"]
    assert told == ["hint", "budget", "model"]


# --- the judge is waited for, or a person -----------------------------------------------------------------------------


class Held(StubExecutor):
    """Judges the kernel of number `number` only once `go` is set, or opens the task where that is -1; `asked` says that
    it is asked to."""

    def __init__(self, number: int) -> None:
        super().__init__(lambda kernel: 1.0 / int(kernel.defines.get("BLOCK", "8")))
        self.number = number
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def open(self, task: TaskSource, target: TargetName = "cpu") -> TaskFacts:
        if self.number < 0:
            self.asked.set()
            await self.go.wait()
        return await super().open(task, target)

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        if 0 <= self.number <= len(self.judged):
            self.asked.set()
            await self.go.wait()
        return await super().evaluate(task, kernel, incumbent, final=final)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = set_up(tmp_path, monkeypatch)
    made.script([proposal("a"), proposal("b")], [judge(16), says("ok"), judge(32), says("ok")], [read_or_answer] * 4)
    return made


def read_or_answer(messages: Sequence[Message]) -> Reply:
    """An analyst that is asked about attempts, or by a person."""
    asked = "\n".join(message.text for message in messages)
    judged = re.findall(r"^Iteration \d+ judged .*\b(a\d+)\.$", asked, re.MULTILINE)
    return reading(judged[-1]) if judged else says("Well.")


def answered(stage: Stage) -> dict[str, str]:
    """Ids of commands, and by which events they were answered in the last process."""
    kinds = ("steered", "steer_refused", "answered")
    return {str(e.fields["id"]): e.event for e in stage.events if e.event in kinds}


async def all_answered(stage: Stage, commands: Sequence[Command], playing: asyncio.Task[Any]) -> None:
    while not {command.id for command in commands} <= answered(stage).keys():
        assert not playing.done(), "it ended with commands that were not heeded"
        await asyncio.sleep(0.01)


async def resumed_at(stage: Stage, number: int, **more: Any) -> tuple[asyncio.Task[Any], Held]:
    """The run, which was stopped while its kernel of that number was judged, in another process while it is judged
    again."""
    for again in (False, True):
        stage.events.clear()
        stage.run, stage.control = RunFolder(stage.run.path), Control()
        done = len(stage.run.attempts()) if again and number > 0 else 0
        stage.executor = held = Held(number - done)
        playing = asyncio.create_task(stage.play(**more))
        await once(held.asked, playing)
        if not again:
            stage.control.stop(grace=0.0)
            await playing
    return playing, held


@pytest.mark.parametrize(
    ("number", "doing"),
    [
        (-1, "opening the task"),
        (0, "judging the starting kernel"),
        (1, "going on where it stopped"),
        (2, "stopping"),
    ],
)
async def test_what_is_given_while_the_judge_works_is_heeded_at_once(stage: Stage, number: int, doing: str) -> None:
    """It opens the task, and judges the starting kernel, a coder's, and the winner afresh. What only a search can heed
    is left to the next one at the end."""
    if number == 2:
        stage.executor = held = Held(number)
        playing = asyncio.create_task(stage.play())
        await once(held.asked, playing)
    else:
        playing, held = await resumed_at(stage, number)
    assert shown_of(stage.run).startswith(doing) or number == 2
    at_once = [*HANDS_OFF, *(TO_SEARCH if number < 2 else ()), *(ABOUT_ATTEMPTS if number > 0 else ())]
    later = [*(() if number > 0 else ABOUT_ATTEMPTS), *(TO_SEARCH if number == 2 else ()), BY_HAND]
    waiting = [give(stage.run.path, action) for action in later if number != 1]
    await all_answered(stage, [give(stage.run.path, action) for action in at_once], playing)
    assert not {command.id for command in waiting} & answered(stage).keys()
    held.go.set()
    outcome = await playing
    assert outcome.iterations == 1
    if number == 2:
        assert not any(attempt.person for attempt in stage.run.attempts())
        stage.control, stage.run = Control(), RunFolder(stage.run.path)
        await stage.play(iterations=2)
    assert {command.id for command in waiting} <= answered(stage).keys()
    assert any(attempt.person for attempt in stage.run.attempts()) == (number != 1)


async def test_a_plan_that_waits_is_answered_in_the_next_process(stage: Stage) -> None:
    playing = asyncio.create_task(stage.play(settings={"approve": True}))
    while not stage.told("plan_waits"):
        await asyncio.sleep(0.01)
    stage.control.stop(grace=0.0)
    await playing
    stage.control, stage.run = Control(), RunFolder(stage.run.path)
    stage.events.clear()
    playing = asyncio.create_task(stage.play(settings={"approve": True}))
    while not stage.told("plan_waits"):
        await asyncio.sleep(0.01)
    give(stage.run.path, acts.Approve())
    assert (await playing).iterations == 1


async def test_a_run_that_was_paused_amid_a_turn_goes_on_in_the_next_process(stage: Stage) -> None:
    """The coder was paused between two of its calls."""

    def hear(event: Event) -> None:
        if event.event == "tool_called" and event.fields["tool"] == "run":
            give(stage.run.path, acts.Pause())

    class Hearing(list[Event]):
        def append(self, event: Event) -> None:
            super().append(event)
            hear(event)

    stage.events = Hearing()
    playing = asyncio.create_task(stage.play())
    while not stage.told("steered"):
        await asyncio.sleep(0.01)
    stage.control.stop(grace=0.0)
    await playing
    give(stage.run.path, acts.Pause())
    stage.control, stage.run, stage.events = Control(), RunFolder(stage.run.path), []
    playing = asyncio.create_task(stage.play())
    while not stage.told("steered"):
        await asyncio.sleep(0.01)
    assert not playing.done()
    give(stage.run.path, acts.GoOn())
    assert (await playing).iterations == 1
