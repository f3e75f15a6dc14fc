"""A person swaps a model that does not answer: what waits for it is let go, over real HTTP, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import steering_actions as acts
from agents.control import Control
from agents.events import Event
from agents.models import anthropic_wire
from agents.models.anthropic_wire import Messages
from agents.models.chat_wire import Chat
from agents.models.connections import BUILT_IN
from agents.models.parting import Parted, Parting
from agents.models.responses_wire import Responses
from agents.models.retry import Stopping
from agents.models.spec import parse_spec
from agents.outcome import Outcome
from agents.settings import Models, RunSettings
from agents.steering_box import give
from app.steer_words import in_words
from memory.runs import RunFolder
from tests import parted_run
from tests.halting_server import Halting
from tests.llm_frames import WIRES, Answer, Call, Tokens, Wire, frames
from tests.llm_server import LlmServer, Recorded, status
from tests.parted_run import NEW, settings_for
from tests.talking_run import SPECS, Brain
from tests.test_swap import in_order, paid

LET_GO = ("openai:m", "user", "another model was chosen")
OLD: dict[Wire, str] = {"responses": "openai:m", "chat": "openai-chat:m"}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "stub", {"settings": settings_for("openai:m").model_dump(mode="json")})


@pytest.fixture
def new() -> Iterator[LlmServer]:
    with LlmServer(Brain()) as server:
        yield server


def told(events: list[Event], kind: str, *names: str) -> list[tuple[Any, ...]]:
    """Of each event of that kind these fields, of the coder's calls alone."""
    mine = [event.fields for event in events if event.event == kind and event.fields.get("role") == "coder"]
    return [tuple(fields.get(name) for name in names) for fields in mine]


async def swapped(
    run: RunFolder, old: Halting, new: LlmServer, settings: RunSettings, *models: str
) -> tuple[Outcome, list[Event]]:
    """The run, in which the coder becomes `models` once the old server was asked."""
    events: list[Event] = []
    playing = asyncio.create_task(parted_run.talk(run, old.url, new.url, settings, events.append))
    await once(old.asked, playing)
    give(run.path, acts.UseModel(role="coder", models=models or (NEW,)))
    return await playing, events


async def once(asked: asyncio.Event, playing: asyncio.Future[Any]) -> None:
    """Returns when the old server was asked; fails when the run is over before."""
    waiting = asyncio.create_task(asked.wait())
    await asyncio.wait({waiting, playing}, return_when=asyncio.FIRST_COMPLETED)
    assert waiting.done(), "it was never asked"


async def test_a_call_that_hangs_is_let_go_and_the_new_model_takes_the_turn_over(
    run: RunFolder, new: LlmServer
) -> None:
    async with Halting("responses") as old:
        outcome, events = await swapped(run, old, new, settings_for("openai:m"))
        await old.all_left()
        assert (old.left, len(old.requests)) == (1, 1), "its connection is closed"
    assert outcome.iterations == 1 and in_order(run, 1)
    assert told(events, "model_failed", "model", "fault", "message") == [LET_GO]
    assert told(events, "model_changed", "before", "after", "why") == [("openai:m", NEW, "user")]
    assert paid(run) == new.total and outcome.input_tokens == new.total.input
    assert len({event.fields["call"] for event in events if event.event == "model_called"}) == 4


async def test_of_parallel_coders_and_samples_each_goes_on_with_the_new_model(run: RunFolder) -> None:
    settings = settings_for("openai:m", parallel=2, samples=2)
    async with Halting("responses", wanted=4) as old:
        with LlmServer(Brain(hypotheses=2)) as new:
            outcome, events = await swapped(run, old, new, settings)
        await old.all_left()
        assert old.left == len(old.requests) == 4
    assert outcome.iterations == 1 and in_order(run, 1, parallel=2)
    assert told(events, "model_failed", "model", "fault", "message") == [LET_GO] * 4
    assert told(events, "model_changed", "after", "why") == [(NEW, "user")] * 4
    assert paid(run) == new.total


async def test_a_swap_to_the_same_model_asks_it_afresh_and_may_name_who_takes_over(
    run: RunFolder, new: LlmServer
) -> None:
    settings = settings_for("openai:m", failover_seconds=0.0)
    async with Halting("responses", halts=1) as old:
        outcome, events = await swapped(run, old, new, settings, "openai:m", NEW)
        assert len(old.requests) == 2
    assert outcome.iterations == 1 and in_order(run, 1)
    assert told(events, "model_failed", "fault") == [("user",), ("transient",)]
    assert told(events, "model_changed", "before", "after", "why") == [("openai:m", NEW, "transient")]


async def test_what_waits_to_be_tried_again_is_let_go(run: RunFolder, new: LlmServer) -> None:
    class Endless(Stopping):
        async def sleep(self, seconds: float) -> None:  # noqa: ARG002
            await asyncio.Event().wait()

    control, events = Control(), list[Event]()
    control.stopping = Endless()

    def hear(event: Event) -> None:
        events.append(event)
        if event.event == "model_retried":
            give(run.path, acts.UseModel(role="coder", models=(NEW,)))

    with LlmServer(lambda _: status(503)) as old:
        outcome = await parted_run.talk(run, old.url, new.url, settings_for("openai:m"), hear, control=control)
        assert len(old.requests) == 1
    assert outcome.iterations == 1 and in_order(run, 1)
    assert told(events, "model_retried", "model") == [("openai:m",)] and told(events, "model_failed") == []
    assert told(events, "model_changed", "before", "after", "why") == [("openai:m", NEW, "user")]


@pytest.mark.parametrize("wire", OLD)
async def test_an_answer_that_comes_may_end_and_the_next_call_is_the_new_models(
    wire: Wire, run: RunFolder, new: LlmServer
) -> None:
    """Swapped when the first piece of its text was heard."""
    tokens = Tokens(input=500, output=30)
    answer = Answer("Let me try what the planner wants.", (judges(10),), tokens=tokens)
    events: list[Event] = []

    def hear_text(role: str, piece: str) -> None:
        if role == "coder" and "Let me" in piece:
            give(run.path, acts.UseModel(role="coder", models=(NEW,)))

    def hear(event: Event) -> None:
        events.append(event)
        if event.event == "steered":
            old.go.set()

    text = next(i for i, event in enumerate(frames(wire, answer, 1)) if "Let me" in str(event))
    async with Halting(wire, said=text + 1, answer=answer) as old:
        outcome = await parted_run.talk(run, old.url, new.url, settings_for(OLD[wire]), hear, on_text=hear_text)
        assert (old.left, len(old.requests)) == (0, 1)
    assert outcome.iterations == 1 and in_order(run, 1)
    assert told(events, "model_called", "model") == [(OLD[wire],), (NEW,)]
    assert told(events, "model_failed") == []
    assert told(events, "model_changed", "before", "after", "why") == [(OLD[wire], NEW, "user")]
    assert paid(run).input == new.total.input + tokens.input
    (about,) = [event.fields["about"] for event in events if event.event == "steered"]
    assert in_words("model", about) == f"coder is played by {NEW}, once the answer that comes just now is at its end"


async def test_what_a_provider_told_of_a_call_that_was_let_go_is_paid(
    run: RunFolder, new: LlmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages tells what the prompt takes before it says anything."""
    control, events = Control(), list[Event]()
    plain = anthropic_wire._Message.take

    def take(self: Any, event: Any) -> str:
        said = plain(self, event)
        asyncio.get_running_loop().call_soon(control.use, "coder", "openai:m")
        return said

    monkeypatch.setattr(anthropic_wire._Message, "take", take)
    models = Models(planner="openai:m", coder="anthropic:m", analyst="openai:m")
    settings = settings_for("anthropic:m").model_copy(update={"models": models})
    async with Halting("messages", said=1, answer=Answer("hello", tokens=Tokens(input=700))) as old:
        outcome = await parted_run.talk(run, new.url, old.url, settings, events.append, control=control)
    assert outcome.iterations == 1 and in_order(run, 1)
    (failed,) = told(events, "model_failed", "model", "fault", "input_tokens", "output_tokens", "dollars")
    assert failed[:4] == ("anthropic:m", "user", 700, 1) and failed[4] == pytest.approx(708e-6)
    assert outcome.input_tokens == new.total.input + 700 == paid(run).input


async def test_a_question_to_an_analyst_that_hangs_is_put_to_the_new_one(run: RunFolder) -> None:
    class Answering(Brain):
        def answer(self, request: Recorded) -> Answer:
            return Answer("Well.") if "how does it stand?" in str(request.body) else super().answer(request)

    models = Models(planner=NEW, coder=NEW, analyst="openai:m")
    settings = settings_for("openai:m").model_copy(update={"models": models})
    events: list[Event] = []
    give(run.path, acts.Ask(question="how does it stand?"))
    async with Halting("responses") as old:
        with LlmServer(Answering()) as new:
            playing = asyncio.create_task(parted_run.talk(run, old.url, new.url, settings, events.append))
            await once(old.asked, playing)
            give(run.path, acts.UseModel(role="analyst", models=(NEW,)))
            outcome = await playing
    (answered,) = [event.fields for event in events if event.event == "answered"]
    assert (answered["answer"], answered["by"]) == ("Well.", NEW) and outcome.iterations == 1


@pytest.mark.parametrize("kind", ["steered", "model_failed", "model_changed"])
async def test_a_run_that_is_killed_amid_a_swap_loses_no_step_and_does_none_twice(
    kind: str, run: RunFolder, new: LlmServer
) -> None:
    root = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": f"{root}:{root / 'tests'}"}
    async with Halting("responses") as old:
        command = [sys.executable, "-P", "-m", "tests.parted_run", str(run.path), old.url, new.url, kind]
        child = await asyncio.create_subprocess_exec(*command, env=environment, cwd=root)
        ended = asyncio.create_task(child.wait())
        await once(old.asked, ended)
        give(run.path, acts.UseModel(role="coder", models=(NEW,)))
        assert await ended == -9
        resumed, events = RunFolder(run.path), list[Event]()
        settings = RunSettings.model_validate(resumed.config()["settings"])
        assert settings.models.coder == NEW
        outcome = await parted_run.talk(resumed, old.url, new.url, settings, events.append)
        assert len(old.requests) == 1
    assert outcome.iterations == 1 and in_order(resumed, 1)
    assert paid(resumed) == new.total and outcome.input_tokens == new.total.input
    lines = resumed.events()
    called = [str(line["call"]) for line in lines if line["event"] == "model_called"]
    assert len(called) == len(set(called)) == len(new.reported) == 4
    assert [line["action"] for line in lines if line["event"] == "steered"] == ["model"]


# --- by itself --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "call", "thought"])
@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_has_begun_with_its_first_text_call_or_visible_thought(wire: Wire, kind: str) -> None:
    answers = {"text": Answer("hello"), "call": Answer(calls=(judges(10),)), "thought": Answer(reasoning="hm")}
    makers = {"responses": Responses, "chat": Chat, "messages": Messages}
    name = SPECS[wire].partition(":")[0]
    assembly = makers[wire](parse_spec(SPECS[wire]), BUILT_IN[name]).assembly()
    begun = []
    for _, event in frames(wire, answers[kind], 1):
        assembly.take(event)
        begun.append(assembly.begun)
    assert not begun[0], "what every stream begins with"
    assert begun[-1] is (wire != "responses" or kind != "thought") and begun == sorted(begun)


async def test_who_is_cancelled_while_a_call_is_let_go_stays_cancelled() -> None:
    parting, begun = Parting(), asyncio.Event()

    async def call() -> None:
        begun.set()
        await asyncio.Event().wait()

    asking = asyncio.create_task(parting.over(call))
    await begun.wait()
    parting.set()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(Parted):
        await parting.over(call)


def judges(block: int) -> Call:
    return Call("run", {"mode": "full", "candidates": [{"defines": {"BLOCK": block}}]})
