"""What a person forbids, and what becomes of a run that may try little or nothing any more."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_model import says
from scripted_run import Stage, judge, proposal, reading, set_up
from test_models_builtin import SECTION, entry, offer

from agents import steering_actions as acts
from agents.control import Control
from agents.ideas import forbids
from agents.limits import IDLE, STOP_WORDS
from agents.models.base import Message, Reply, Request
from agents.models.builtin import Autotune
from agents.steering_box import give
from app.log_lines import log_line
from memory import ledger
from memory.runs import RunFolder
from tools.space import ENUMERABLE, Assignment, Space, suggest

FEW_LEFT = (
    "BLOCK=16",
    "BLOCK=32",
    "BLOCK=64",
    "BLOCK=128",
    "BLOCK=256",
    "UNROLL=2 -O3",
    "ofast",
    "prefer width",
    "funroll",
)
"""Of a value, of settings together, and of a word that is part of none."""


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


def again(stage: Stage) -> None:
    """Another process is to go on with the run."""
    stage.run, stage.control = RunFolder(stage.run.path), Control()
    stage.events.clear()


# --- the tuner --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("parallel", "samples"), [(1, 1), (3, 1), (1, 2)])
async def test_the_tuner_tries_all_that_is_allowed_and_then_says_that_nothing_else_is(
    stage: Stage, parallel: int, samples: int
) -> None:
    for idea in FEW_LEFT:
        give(stage.run.path, acts.Forbid(idea=idea))
    give(stage.run.path, acts.Pin(attempt="a0"))
    outcome = await stage.play("autotune", parallel=parallel, settings={"samples": samples}, iterations=99, patience=99)
    tried = [attempt.change for attempt in stage.run.attempts()[1:]]
    assert outcome.reason == "exhausted" and tried
    assert not [change for change in tried if any(forbids(idea, change) for idea in FEW_LEFT)]
    asked = [event for event in stage.told("tool_called") if event["tool"] == "propose"]
    assert all(event["ok"] for event in asked) and len(asked) == outcome.iterations + 1
    (stopping,) = stage.told("stopping")
    assert "every hypothesis has to start from a0, and forbidden is BLOCK=16; " in stopping["message"]
    if samples == 1:
        others = [attempt.kernel["defines"] for attempt in stage.run.attempts() if "BLOCK" in attempt.kernel["defines"]]
        assert {defines["BLOCK"] for defines in others} == {"8"}
        assert {defines["UNROLL"] for defines in others} == {"1", "2", "4", "8"}


@pytest.mark.parametrize("most", [1, 3])
async def test_nothing_is_proposed_again_in_a_turn_whatever_it_was_refused_for(most: int) -> None:
    text = f"{ledger.render([entry(0, 'BLOCK=8', 1.0, None)])}\n\n{SECTION}\nPropose at most {most} hypotheses"
    messages, alone = [Message(speaker="user", text=text)], list[str]()
    for step in range(20):
        reply = await Autotune().reply(Request(messages=tuple(messages), tools=tuple(offer("propose"))))
        changes = [h["change"] for h in json.loads(reply.tool_calls[0].arguments)["hypotheses"]]
        if not changes:
            break
        alone += changes if len(changes) == 1 else []
        assert len(changes) == (most if step == 0 else 1)
        refused = Message(speaker="tool", text="error: refused: no", call=reply.tool_calls[0].id, failed=True)
        messages += [reply.message, refused]
    assert len(alone) == len(set(alone)) == 8, "all but the start, each once"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.frozensets(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=4),
    st.integers(0, 9),
)
def test_a_walk_finds_every_allowed_point_once_and_no_other(
    sizes: list[int], forbidden: frozenset[tuple[int, int]], seed: int
) -> None:
    tunables = {f"T{axis}": tuple(map(str, range(size))) for axis, size in enumerate(sizes)}
    space = Space(tunables=tunables, start=Assignment(defines=dict.fromkeys(tunables, "0")))

    def allowed(point: Assignment) -> bool:
        return not any(point.defines.get(f"T{axis}") == str(value) for axis, value in forbidden)

    wanted = 1
    for axis, size in enumerate(sizes):
        wanted *= sum((axis, value) not in forbidden for value in range(size))
    found = walk(space, allowed, seed)
    assert len(found) == len({point.key for point in found}) == wanted and all(map(allowed, found))


def walk(space: Space, allowed: Callable[[Assignment], bool], seed: int) -> list[Assignment]:
    found: list[Assignment] = []
    while (point := suggest(space, [(known, 1.0) for known in found], seed, allowed=allowed)) is not None:
        found.append(point)
    return found


def test_of_a_space_too_large_to_list_the_few_allowed_points_are_found_too() -> None:
    tunables = {"A": tuple(map(str, range(ENUMERABLE))), "B": ("0", "1", "2")}
    space = Space(tunables=tunables, start=Assignment(defines={"A": "0", "B": "0"}))
    found = walk(space, lambda point: point.defines["A"] == "4000", 0)
    assert {point.defines["B"] for point in found} == {"0", "1", "2"} and len(found) == 3


# --- iterations of which nothing comes --------------------------------------------------------------------------------


def stubborn(change: str) -> Callable[[Sequence[Message]], Reply]:
    return lambda _: proposal(change)


async def test_iterations_that_try_nothing_are_no_attempts_and_end_the_run_with_a_reason(stage: Stage) -> None:
    """A planner that hears nothing: patience is about attempts, so it is not at its end. A resumed run tries again."""
    give(stage.run.path, acts.Forbid(idea="unroll"))
    stage.script([stubborn("unroll more")] * 3 * (IDLE + 1), [judge(4), says("ok")], [reading("a1")])
    stage.models["planner"]._lines.insert(0, proposal("pad the rows"))
    asked = {"iterations": 99, "patience": 2, "settings": {"turn_steps": 3}}
    outcome = await stage.play(**asked)
    assert (outcome.reason, outcome.iterations, len(stage.run.attempts())) == ("idle", 1 + IDLE, 2)
    assert outcome.final is not None or outcome.best == "a0", "its best was measured afresh"
    assert [told["stale"] for told in stage.told("iteration_ended")] == [1] * (1 + IDLE)
    (stopping,) = stage.told("stopping")
    assert (stopping["reason"], stopping["message"]) == ("idle", "forbidden is unroll")
    assert str(IDLE) in STOP_WORDS["idle"]
    give(stage.run.path, acts.Allow(idea="unroll"))
    again(stage)
    stage.script([proposal("unroll more")], [judge(2), says("ok")], [reading("a2")])
    outcome = await stage.play(**asked)
    assert (outcome.reason, len(stage.run.attempts())) == ("patience", 3)


async def test_the_log_says_what_was_refused_and_why(stage: Stage) -> None:
    give(stage.run.path, acts.Forbid(idea="unroll"))
    stage.script([stubborn("unroll " + "and again " * 99), proposal("x")], [judge(64), says("ok")], [reading("a1")])
    await stage.play()
    refused = next(line for line in stage.run.events() if line["event"] == "tool_called" and not line["ok"])
    told = log_line(refused) or ""
    assert ": refused: the user forbids this idea: unroll; proposed was: unroll and again" in told
    assert len(str(refused["message"])) <= 240
    assert "message" not in next(line for line in stage.run.events() if line["event"] == "tool_called" and line["ok"])
