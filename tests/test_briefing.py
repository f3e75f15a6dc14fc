"""What a role is told is a pure projection of the past: the same history, the same bytes, whatever came later."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stub_executor import TASK, StubExecutor

from agents import briefing, reflection
from agents.actions import TOOLS
from agents.attempts import Attempts
from agents.models.base import Message, ToolCall
from agents.room import Room
from agents.settings import Role, RunSettings
from agents.state import Hypothesis
from agents.thread import Opening
from agents.told import Told
from agents.toolbox import Toolbox
from agents.wishes import Wishes
from memory.ledger import Outcome
from memory.runs import Attempt, RunFolder
from memory.tokens import COUNTER, Corrected
from memory.view import OVERHEAD, ViewTooLarge
from tools.records import Kernel

FACTS = asyncio.run(StubExecutor(lambda _: 1.0).open(TASK))
OUTCOMES: tuple[Outcome, ...] = ("kept", "slower", "rejected", "same", "unjudged")


class Story:
    """A run folder that grows by hand, and seats in it."""

    def __init__(self, root: Path) -> None:
        self.run = RunFolder.create(root, "stub", {})
        self.context_settings = RunSettings()

    def add(self, outcome: Outcome, *, lines: int = 30, parent: str | None = None, noise: int = 0) -> Attempt:
        """The next attempt, in an iteration of its own, with its diagnosis and score."""
        number = len(self.run.attempts())
        accepted = outcome in ("kept", "same", "slower")
        body = f"// source of a{number}\n" + "".join(f"float x{i} = y[{i}] * {number};\n" for i in range(lines))
        kernel = Kernel(language="cpp", files={"kernel.cpp": body}, defines={"BLOCK": str(16 + number)})
        attempt = Attempt(
            id=f"a{number}",
            parent=parent or (f"a{number // 2}" if number else None),
            iteration=number,
            kernel_id=kernel.id,
            kernel=kernel.model_dump(mode="json"),
            hypothesis=None
            if not number
            else hypothesis(f"change number {number} of the loop", parent or f"a{number // 2}").model_dump(),
            change=f"edited kernel.cpp (+3 -{number})",
            outcome=outcome,
            note="" if accepted else f"correct: wrong_result: off in {number} places",
            seconds=1.0 / (number + 1) if accepted else None,
            share_of_limit=0.5 if accepted else None,
            speedup=2.0 if accepted else None,
            judged_at=0.0,
            device_seconds=0.1,
        )
        verdict: dict[str, Any] = {"status": "unjudged", "kernel": kernel.id, "message": "lost"}
        if outcome == "rejected":
            stage = {"stage": "correct", "passed": False, "seconds": 0.1, "stderr": "trace\n" * noise}
            verdict = {"status": "rejected", "kernel": kernel.id, "stage": "correct", "reason": "wrong_result"}
            verdict |= {"message": "wrong", "stages": [stage]}
        self.run.add_attempt(attempt, kernel.files, verdict)
        self.close(number)
        return attempt

    def close(self, iteration: int) -> None:
        new = [attempt for attempt in self.run.attempts() if attempt.iteration == iteration]
        for attempt in new:
            self.run.add_diagnosis(attempt.id, diagnosis(attempt.id, f"reading of {attempt.id}"))
        reflection.score_iteration(self.run, new)

    def seat(self, role: Role, iteration: int | None = None, parent: str | None = None) -> Any:
        """A seat that knows the attempts of the iterations before its own (an analyst those of its own too)."""
        known = self.run.attempts()
        iteration = len(known) if iteration is None else iteration
        told = sum(a.iteration < iteration + (role == "analyst") for a in known)
        context = SimpleNamespace(
            task=TASK,
            settings=self.context_settings,
            told=Told(),
            facts=FACTS,
            flag_groups=(((), ("-O3",)),),
            run=self.run,
            attempts=Attempts(TASK, None, self.run, None),  # type: ignore[arg-type]
            lessons=SimpleNamespace(text="Lessons\n\n- 1: wide loads help"),
            steering=SimpleNamespace(wishes=Wishes()),
        )
        asked = hypothesis("another change", parent) if role == "coder" else None
        return SimpleNamespace(
            context=context, role=role, iteration=iteration, attempts=told, hypothesis=asked, sample=None
        )


def hypothesis(change: str, parent: str | None) -> Hypothesis:
    return Hypothesis(idea="why", change=change, metric="seconds", expected="-20 %", parent=parent)


def diagnosis(attempt: str, summary: str) -> dict[str, Any]:
    said = {"attempt": attempt, "bottleneck": "memory", "evidence": ["90 %"], "summary": summary}
    return said | {"hypothesis_held": True}


def opening(seat: Any) -> Opening:
    if seat.role == "planner":
        return briefing.for_planner(seat, 2)
    if seat.role == "coder":
        return briefing.for_coder(seat)
    return briefing.for_analyst(seat, [a for a in seat.context.run.attempts() if a.iteration == seat.iteration])


def told(seat: Any, budget: int = 60_000, factor: float = 1.0) -> list[Message]:
    return opening(seat).project(Room(budget, budget + 9_000, "m", factor, 1_000, 8_000))


def text_of(messages: list[Message]) -> str:
    return "\n".join(message.text for message in messages)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_parts_come_in_the_order_in_which_they_change(story: Story) -> None:
    for number in range(20):
        story.add("kept" if number % 4 == 0 else "slower")
    story.run.add_hint("Keep the layout.", 3)
    labels = [message.label for message in told(story.seat("planner"))]
    details = [f"attempt a{i}" for i in range(14, 20)]
    assert labels == [
        "planner", "lessons", "hints", "ledger", "best kernel", "newest attempts", *details, "track record", "ask",
    ]  # fmt: skip
    labels = [message.label for message in told(story.seat("coder", parent="a3"))]
    assert labels == ["coder", "hints", "ledger", "best kernel", "parent", "newest attempts", *details, "ask"]
    story.add("rejected")
    labels = [message.label for message in told(story.seat("analyst", 20))]
    assert labels == ["analyst", "hints", "ledger", "best kernel", "newest attempts", "attempt a20", "ask"]


def test_what_precedes_the_newest_lines_stays_byte_for_byte(story: Story) -> None:
    """From one block of the ledger to the next, as long as the best stays the best."""
    for number in range(17):
        story.add("kept" if number < 3 else "slower")
    before = told(story.seat("planner"))
    for _ in range(14):
        story.add("slower")
        now = told(story.seat("planner"))
        shared = [a.label for a, b in zip(before, now, strict=False) if a == b]
        assert shared[:4] == ["planner", "lessons", "ledger", "best kernel"]
        before = now


def test_the_system_message_is_the_same_for_the_whole_run(story: Story) -> None:
    first = {role: told(story.seat(role))[0] for role in ("planner", "coder")}
    for outcome in ("kept", "rejected", "slower") * 6:
        story.add(outcome)  # type: ignore[arg-type]
    assert first == {role: told(story.seat(role))[0] for role in ("planner", "coder")}
    assert all(message.speaker == "system" for message in first.values())


@pytest.mark.parametrize("role", ["planner", "coder", "analyst"])
def test_a_past_prompt_can_be_made_again_whatever_came_later(story: Story, role: Role) -> None:
    for number in range(12):
        story.add("kept" if number % 3 == 0 else "rejected")
    then = told(story.seat(role, 9))
    for number in range(20):
        story.add("kept" if number % 2 else "slower")
    for attempt in ("a3", "a8", "a9"):
        story.run.add_profile(attempt, {"workload": "default", "metrics": []})
    story.run.add_hint("A later thought.", 12)
    story.run.add_final("a9", {"status": "accepted"}, confirmed=False, iteration=30)
    reflection.score_iteration(story.run, story.run.attempts())
    assert told(story.seat(role, 9)) == then
    again = Story.__new__(Story)
    again.run, again.context_settings = RunFolder(story.run.path), RunSettings()
    assert told(again.seat(role, 9)) == then


def test_what_a_role_can_not_know_yet_is_not_told(story: Story) -> None:
    for number in range(6):
        story.add("kept" if number % 2 == 0 else "slower")
    assert "reading of a5" in text_of(told(story.seat("planner", 6)))
    assert "reading of a5" not in text_of(told(story.seat("analyst", 5)))
    assert "a5" not in re.findall(r"\ba\d+\b", text_of(told(story.seat("coder", 5))))


def test_a_refuted_winner_was_the_best_until_it_was_refuted(story: Story) -> None:
    for _ in range(5):
        story.add("kept")
    story.run.add_final("a4", {"status": "rejected"}, confirmed=False, iteration=5)
    assert "## Best kernel: a4" in text_of(told(story.seat("planner", 5)))
    assert "## Best kernel: a3" in text_of(told(story.seat("planner", 6)))


def test_a_hint_is_told_to_every_role_from_its_iteration_on(story: Story) -> None:
    for _ in range(3):
        story.add("kept")
    story.run.add_hint("Never touch the output's layout.", 2)
    for role in ("planner", "coder", "analyst"):
        assert "Never touch" in text_of(told(story.seat(role, 2)))  # type: ignore[arg-type]
    assert "Never touch" not in text_of(told(story.seat("planner", 1)))


def test_the_ledger_says_what_was_expected_and_what_came(story: Story) -> None:
    story.add("kept")
    story.add("kept")
    story.add("rejected")
    lines = text_of(told(story.seat("planner"))).splitlines()
    assert "a1|a0|change number 1 of the loop|edited|-20%→-50%|kept|500|50%|" in lines
    assert "a2|a1|change number 2 of the loop|edited|-20%→|rejected|||correct: wrong_result: off in 2 places" in lines
    assert any(line.startswith("- other: 2 tried, 1 gained, 1 of 1 moved as predicted") for line in lines)


def test_the_parent_without_a_name_is_the_best_that_the_coder_was_told_of(story: Story) -> None:
    story.add("rejected")
    seat = story.seat("coder", 1)
    assert "## Parent: a0" in text_of(told(seat))
    story.add("kept")
    assert "## Parent: a0" in text_of(told(seat)), "attempts of coders beside it come too late"


def test_where_nothing_can_be_left_out_any_more_it_is_an_error(story: Story) -> None:
    story.add("kept")
    with pytest.raises(ViewTooLarge):
        told(story.seat("planner"), 1_000)


async def test_a_proposal_that_was_tried_is_answered_with_what_came_of_it(story: Story) -> None:
    for outcome in ("kept", "slower", "rejected"):
        story.add(outcome)  # type: ignore[arg-type]
    box = Toolbox(TOOLS["planner"], story.seat("planner"))

    async def propose(*said: Hypothesis) -> str:
        box_arguments = json.dumps({"hypotheses": [each.model_dump() for each in said]})
        return (await box.call(ToolCall(id="c0", name="propose", arguments=box_arguments))).text

    again = await propose(hypothesis("Change number 2 of the loop!", "a1"))
    assert again.startswith(
        "error: refused: a2 was this change of a1: rejected; correct: wrong_result: off in 2 places"
    )
    settings_again = await propose(hypothesis("BLOCK=17", "a1"))
    assert "a1 was this change of a0: slower, 500 ms" in settings_again
    for fresh in (hypothesis("change number 2 of the loop", "a0"), hypothesis("change number 3 of the loop", "a1")):
        assert json.loads(await propose(fresh))[0]["change"] == fresh.change
    story.context_settings = RunSettings(parallel=2)
    box = Toolbox(TOOLS["planner"], story.seat("planner"))
    twice = await propose(hypothesis("unroll twice", "a0"), hypothesis("Unroll twice.", "a0"))
    assert "two hypotheses are the same" in twice


async def test_a_reading_of_another_iteration_is_refused(story: Story) -> None:
    story.add("kept")
    story.add("slower")
    box = Toolbox(TOOLS["analyst"], story.seat("analyst", 1))
    asked = ToolCall(id="c0", name="diagnose", arguments=json.dumps({"diagnoses": [diagnosis("a0", "new thoughts")]}))
    assert "a0 is not of this iteration" in (await box.call(asked)).text
    assert (story.run.diagnosis("a0") or {})["summary"] == "reading of a0"


HISTORIES = st.lists(
    st.tuples(st.sampled_from(OUTCOMES), st.integers(1, 900), st.integers(0, 800)), min_size=1, max_size=70
)


@given(
    HISTORIES,
    st.integers(4_000, 120_000),
    st.sampled_from([1.0, 1.6, 2.4]),
    st.sampled_from(["planner", "coder", "analyst"]),
)
@settings(max_examples=25, deadline=None)
def test_any_history_fits_with_the_best_and_every_attempt(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[Outcome, int, int]],
    budget: int,
    factor: float,
    role: Role,
) -> None:
    story = Story(tmp_path_factory.mktemp("runs"))
    for outcome, lines, noise in history:
        story.add(outcome, lines=lines, noise=noise)
    seat = story.seat(role, len(history) - (role == "analyst"))
    try:
        messages = told(seat, budget, factor)
    except ViewTooLarge:
        assert budget < 6_000 * factor
        return
    text = text_of(messages)
    counter = Corrected(COUNTER, factor)
    assert sum(counter.count(m.text) + OVERHEAD for m in messages) <= 0.75 * budget
    assert set(re.findall(r"\ba\d+\b", text)) >= {f"a{i}" for i in range(seat.attempts)}
    best = story.run.best_of(story.run.attempts()[: seat.attempts])
    if best is not None:
        assert f"kernel: {best}" in text and f"// source of {best}\n" in text
        if budget > 60_000:
            assert story.run.attempt(best).kernel["files"]["kernel.cpp"].strip() in text  # type: ignore[index, call-overload, union-attr]
    order = [m.label for m in messages]
    whole = [m.label for m in told(seat, 10**6, factor)]
    assert order == [label for label in whole if label in order], "what is left stands in the same order"
    assert messages[0] == told(seat, 10**6, factor)[0] and messages[-1].label == "ask"
