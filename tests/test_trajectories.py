"""Runs read back as trajectories: what the models saw, who owns which attempt, and which kernels make a pair."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import killed_run
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_model import calls, says
from scripted_run import Stage, judge, proposal, reading, set_up
from stub_executor import TASK, StubExecutor
from synthetic_run import make_run

from agents import preferences, transcript
from agents.dataset_schema import COLUMNS, misfit
from agents.drive import optimize
from agents.models.base import Message, Reply
from agents.preferences import Judged, compare
from agents.rewards import Reward
from agents.trajectories import Past, Turn, turns
from memory.runs import Attempt, RunFolder
from tools.records import Accepted, Comparison, Interval, Kernel, Rejected, StageReport, Unjudged, WorkloadTiming


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path / "runs", monkeypatch)


def read(stage: Stage) -> dict[str, Turn]:
    return {turn.name: turn for turn in turns(Past(RunFolder(stage.run.path)))}


def shown(messages: Any) -> list[tuple[object, ...]]:
    return [(m.speaker, m.text, m.call, m.tool_calls) for m in messages]


# What the models saw


async def test_every_prompt_is_read_back_as_it_was_sent(stage: Stage) -> None:
    coder = [calls("show", {"attempt": "a0"}, call="k1"), judge(64), calls("run", "{", call="k9"), says("Done.")]
    stage.script([says("Hm."), proposal("x")], coder, [reading("a1")])
    await stage.play()
    found = read(stage)
    assert list(found) == ["0001-planner", "0001-coder-0", "0001-analyst"]
    for turn in found.values():
        heard = stage.models[turn.role].heard
        assert [shown(call.prompt) for call in turn.calls] == [shown(messages) for messages in heard]
        assert all(call.exact and call.model == f"scripted:{turn.role}" for call in turn.calls)
    assert [call.fresh for call in found["0001-coder-0"].calls][1:] == [1, 1, 1]


async def test_a_prompt_that_gave_way_to_the_window_is_read_back_as_it_was_sent(stage: Stage) -> None:
    looking = [calls("show", {"attempt": "a0"}, call=f"k{i}") for i in range(30)]
    stage.script([proposal("x")], [], [reading("a1")])
    stage.add("coder", [*looking, judge(64), says("Done.")], window=16_000)
    await stage.play(settings={"reply_tokens": 1000, "turn_steps": 99})
    turn = read(stage)["0001-coder-0"]
    heard = stage.models["coder"].heard
    whole = [message.text for message in heard[0]]
    assert any(shown(a) != shown(b[: len(a)]) for a, b in pairwise(heard)), "nothing gave way"
    assert len(heard) == len(turn.calls) and whole
    for call, messages in zip(turn.calls, heard, strict=True):
        assert shown(call.prompt) == shown(messages)
    restarted = [call for call in turn.calls[1:] if call.fresh > 1]
    assert restarted, "a prompt that was rewritten is not what came before and one more"


async def test_a_reply_that_was_lost_in_a_kill_is_left_out(stage: Stage) -> None:
    stage.script([proposal("x")], [judge(64), says("Done.")], [reading("a1")])
    await stage.play()
    path = stage.run.path / "transcript/0001-coder-0.jsonl"
    lines = path.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if json.loads(line)["speaker"] == "assistant")
    lost = json.dumps({"speaker": "assistant", **says("I was lost.").model_dump(mode="json", exclude={"opaque"})})
    path.write_text("\n".join([*lines[:at], lost, *lines[at:], '{"torn": ']) + "\n")
    turn = read(stage)["0001-coder-0"]
    assert [shown(c.prompt) for c in turn.calls] == [shown(heard) for heard in stage.models["coder"].heard]


async def test_a_run_that_was_killed_and_went_on_reads_as_one(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "stub", {})
    program = [sys.executable, str(Path(killed_run.__file__)), str(run.path), "5"]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    run, executor = RunFolder(run.path), StubExecutor(killed_run.seconds_of)
    await optimize(TASK, killed_run.SETTINGS, run, executor, lambda _: None)
    found = list(turns(Past(RunFolder(run.path))))
    called = [event for event in run.events() if event["event"] == "model_called"]
    assert sum(len(turn.calls) for turn in found) == len(called)
    assert all(call.exact and call.prompt[0].speaker == "system" for turn in found for call in turn.calls)
    owned = [name for turn in found if turn.role == "coder" for name in turn.attempts]
    assert sorted(owned) == sorted(attempt.id for attempt in run.attempts() if attempt.id != "a0")


def test_an_older_runs_ledger_is_made_again_and_marked(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=3)
    write = run.transcript("0001-planner").add
    write({"speaker": "system", "label": "planner", "blob": run.blobs.put("You plan.")})
    write({"speaker": "user", "label": "ledger", "attempts": 2})
    write({"speaker": "assistant", **calls("propose", {"hypotheses": []}).model_dump(mode="json")})
    write({"speaker": "tool", "call": "c0", "tool": "propose", "text": "[]"})
    (turn,) = turns(Past(run))
    system, table = turn.calls[0].prompt
    assert system.text == "You plan." and not turn.calls[0].exact
    assert "\na1" in table.text and "\na2" not in table.text


def test_a_transcript_whose_text_is_gone_is_counted_and_passed_over(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=2)
    run.transcript("0001-planner").add({"speaker": "user", "blob": "0" * 32})
    damaged: Counter[str] = Counter()
    assert list(turns(Past(run), damaged)) == [] and damaged == {run.id: 1}


def test_separators_that_are_no_line_ends_do_not_cut_a_line(tmp_path: Path) -> None:
    run, text = make_run(tmp_path, attempts=1), "a\u2028b\x85c\x0bd\x1ce\r\nf"
    run.transcript("0001-coder-0").add({"speaker": "user", "blob": run.blobs.put("Go.")})
    run.transcript("0001-coder-0").add({"speaker": "assistant", **says(text).model_dump(mode="json")})
    (turn,) = turns(Past(run))
    assert turn.calls[0].reply.text == text


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["view", "given", "assistant", "tool", "system", "user", "x"]), max_size=12), st.data())
def test_no_order_of_lines_is_too_odd_to_read(speakers: list[str], data: st.DataObject) -> None:
    class NoBlobs:
        def get(self, name: str) -> str:
            return name

    odd = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.none(), max_size=2))
    reading_on = transcript.Reading(NoBlobs())  # type: ignore[arg-type]
    for speaker in speakers:
        names = ("text", "call", "tool", "label", "tokens", "tool_calls", "messages")
        reading_on.take({"speaker": speaker, **{name: data.draw(odd) for name in names if data.draw(st.booleans())}})
    assert isinstance(reading_on.seen(), tuple)


def test_given_lines_hold_all_that_a_model_sees(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1)
    reply = calls("run", {"mode": "full"}, call="k")
    prompt = [
        Message(speaker="system", text="s", label="coder"),
        Message(speaker="user", text="u"),
        reply.message,
        Message(speaker="tool", text="error: no", call="k", failed=True),
    ]
    line = json.loads(json.dumps(transcript.given_line(prompt, run.blobs)))
    assert transcript.adds_up([line], run.blobs, prompt)
    assert not transcript.adds_up([line], run.blobs, prompt[:-1])
    assert not transcript.adds_up([line], run.blobs, [*prompt[:-1], prompt[-1].model_copy(update={"text": "x"})])


# Who owns which attempt


async def test_attempts_belong_to_the_calls_that_made_them(stage: Stage) -> None:
    built = calls("compile", {"candidate": {"defines": {"BLOCK": 32}}}, call="k2")
    coders = [judge(64), judge(64), built, says("Done.")]
    stage.script([proposal("x")], coders, [reading("a1")])
    await stage.play()
    found, past = read(stage), Past(RunFolder(stage.run.path))
    coder = found["0001-coder-0"]
    assert [call.attempts for call in coder.calls] == [("a1",), (), (), ("a2",)]  # the last was judged for it
    assert coder.attempts == found["0001-planner"].attempts == ("a1", "a2")
    assert found["0001-analyst"].attempts == ()
    assert past.reward("a1") == Reward(steps=3, continuous=1.0)
    assert past.best_reward(("a1", "a2")) == past.reward("a1") and past.best_reward(()) is None


async def test_what_parallel_coders_left_goes_to_the_right_one(stage: Stage) -> None:
    """By the hypothesis, whoever ended first."""
    blocks = {"left": 16, "right": 32}

    def build(messages: Any) -> Reply:
        change = next(name for name in blocks if f"Change: {name}" in messages[-1].text)
        return calls("compile", {"candidate": {"defines": {"BLOCK": blocks[change]}}}, call="k")

    stage.script([proposal("left", "right")], [build, build, says("Done."), says("Done.")], [reading("a1")])
    await stage.play(parallel=2)
    found = read(stage)
    for slot, change in enumerate(blocks):
        (attempt,) = found[f"0001-coder-{slot}"].attempts
        assert stage.run.attempt(attempt).hypothesis is not None
        assert (stage.run.attempt(attempt).hypothesis or {})["change"] == change


def test_a_refuted_winner_is_worth_what_the_fresh_measurement_says(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=2)
    assert (reward := Past(run).reward("a0")) is not None and reward.steps > 0
    failed = StageReport(stage="correct", passed=False, seconds=0.1)
    verdict = Rejected(kernel="k", stage="correct", reason="wrong_result", message="wrong", stages=(failed,))
    run.add_final("a0", verdict.model_dump(mode="json"), confirmed=False)
    assert Past(run).reward("a0") == Reward(steps=-1, continuous=-1.0)


# Better against worse


def judged(name: str, seconds: float | None, race: tuple[str, float] | None = None, spread: float = 0.02) -> Judged:
    """`race`: the rival and the rival's time / this one's."""
    kernel = Kernel(language="cpp", files={"kernel.cpp": name})
    base = {
        "id": name,
        "parent": "a0",
        "iteration": 1,
        "kernel_id": kernel.id,
        "kernel": kernel.model_dump(mode="json"),
    }
    attempt = Attempt(**base, change="", outcome="same", judged_at=0.0, device_seconds=0.0)  # type: ignore[arg-type]
    if seconds is None:
        stage = StageReport(stage="build", passed=False, seconds=0.1)
        wrong = Rejected(kernel=kernel.id, stage="build", reason="compile_error", message="no", stages=(stage,))
        return Judged(attempt, wrong, None)
    timing = WorkloadTiming(
        workload="w",
        weight=1.0,
        seconds=seconds,
        interval=Interval(low=seconds * (1 - spread), high=seconds * (1 + spread)),
        samples=9,
        baseline_seconds=1.0,
        limit_seconds=0.1,
    )
    comparison = None
    if race is not None:
        ratio = race[1]
        decision = "faster" if ratio > 1 + spread else "slower" if ratio < 1 - spread else "same"
        interval = Interval(low=ratio * (1 - spread), high=ratio * (1 + spread))
        comparison = Comparison(decision=decision, ratio=ratio, interval=interval)
    stage = StageReport(stage="audit", passed=True, seconds=0.1)
    verdict = Accepted(kernel=kernel.id, stages=(stage,), timings=(timing,), worst_error=0.0, comparison=comparison)
    return Judged(attempt, verdict, None if race is None else race[0])


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (judged("a", 1.0), judged("b", None), ("a", "b", "verdict")),
        (judged("a", None), judged("b", None), None),
        (judged("a", 1.0), judged("b", 0.5), ("b", "a", "times")),
        (judged("a", 1.0), judged("b", 0.98), None),  # within the noise
        (judged("a", 1.0), judged("b", 2.0, ("a", 1.25)), ("b", "a", "race")),  # a race outdoes times of two days
        (judged("a", 1.0), judged("b", 0.5, ("a", 1.0)), None),
        (judged("a", 1.0, ("r", 1.3)), judged("b", 0.9, ("r", 1.1)), ("a", "b", "races against one rival")),
        (judged("a", 1.0, ("r", 1.12)), judged("b", 0.5, ("r", 1.1)), None),
        (judged("a", 1.0), judged("a", 0.5), None),  # the same kernel
    ],
)
def test_only_what_lies_beyond_noise_makes_a_pair(a: Judged, b: Judged, expected: tuple[str, str, str] | None) -> None:
    for one, other in ((a, b), (b, a)):
        pair = compare(one, other)
        assert (None if pair is None else (pair.better.id, pair.worse.id, pair.because)) == expected
    unjudged = Judged(b.attempt, Unjudged(kernel="k", message="the device is gone"), None)
    assert compare(a, unjudged) is None and compare(unjudged, a) is None


def test_pairs_share_a_parent_and_the_prompt_shows_it(tmp_path: Path) -> None:
    past = Past(make_run(tmp_path, attempts=9))
    found = list(preferences.rows(past))
    assert found and all(misfit(row, COLUMNS["preference"]) is None for row in found)
    for row in found:
        parent, better, worse = (str(row[name]) for name in ("parent", "chosen_attempt", "rejected_attempt"))
        assert past.attempts[better].parent == past.attempts[worse].parent == parent
        assert f"/* {parent[1:]} & <b> */" in row["prompt"][0]["content"]  # type: ignore[index, call-overload]
        assert f"/* {better[1:]} & <b> */" in row["chosen"][0]["content"]  # type: ignore[index, call-overload]
    sizes = Counter(str(row["parent"]) for row in preferences.rows(past, most=2))
    assert max(sizes.values()) == 2
