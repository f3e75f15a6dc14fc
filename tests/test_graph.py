"""The whole graph, with the scripted model or `builtin:autotune`, on an executor that measures nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import killed_run
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from scripted_model import ScriptedModel, calls, says
from scripted_run import SLOWER_WITH_LESS_BLOCK, Stage, hypothesis, judge, proposal, reading, set_up
from stub_executor import TASK

from agents import asking
from agents.drive import optimize
from agents.graph import build_graph
from agents.limits import StopReason
from agents.models.base import Message, ModelUnavailable, Reply
from agents.settings import Budgets, Models, RunSettings
from memory import ledger
from memory.calibration import bound_of
from memory.runs import RunFolder
from memory.tokens import COUNTER
from tools.errors import InfrastructureError, KernelError
from tools.records import Accepted, Kernel, Rejected, StageReport, Unjudged, Verdict


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


async def test_one_iteration_goes_from_hypothesis_to_verdict_to_diagnosis(stage: Stage) -> None:
    stage.script([proposal("larger blocks")], [judge(64), says("Done.")], [reading("a1")])
    outcome = await stage.play()
    assert (outcome.reason, outcome.iterations, outcome.best) == ("iterations", 1, "a1")
    assert outcome.counts == {"kept": 2} and outcome.final is not None
    first, second = stage.run.attempts()
    assert (first.id, first.parent, first.iteration, first.hypothesis) == ("a0", None, 0, None)
    assert (second.parent, second.iteration) == ("a0", 1)
    assert (second.hypothesis or {}).items() >= hypothesis("larger blocks").items()
    assert second.kernel["defines"] == {"BLOCK": "64"}
    assert (stage.run.diagnosis("a1") or {})["summary"] == "It streams."
    assert stage.run.outcome() == outcome.model_dump(mode="json")
    (told,) = stage.told("run_ended")
    race = Accepted.model_validate(outcome.final).comparison
    assert race is not None and told["last"]["race"]["ratio"] == race.ratio
    first_best, second_best = stage.told("best_changed")
    assert first_best["gain"] == 1.0 and second_best["gain_by"] == "raced"


async def test_each_role_is_told_what_it_needs(stage: Stage) -> None:
    stage.script([proposal("larger blocks")], [judge(64), says("Done.")], [reading("a1")])
    await stage.play()
    planner, coder, analyst = (
        "\n".join(message.text for message in stage.models[role].heard[0]) for role in ("planner", "coder", "analyst")
    )
    assert [e.attempt for e in ledger.parse(planner)] == ["a0"] == [e.attempt for e in ledger.parse(coder)]
    assert "BLOCK: 8 | 16 | 32 | 64 | 128 | 256 (now 8)" in planner and "flags: " in planner
    assert "## Your hypothesis" in coder and "Change: larger blocks" in coder and "#define BLOCK 8" in coder
    assert "New best: a1." in analyst and "Expected: seconds -50 %" in analyst
    systems = [model.heard[0][0] for model in stage.models.values()]
    assert all(s.speaker == "system" and "# The task: stub" in s.text for s in systems)


async def test_a_tool_result_reaches_the_model_under_its_call(stage: Stage) -> None:
    stage.script([proposal("x")], [calls("run", "{", call="k7"), judge(64), says("Done.")], [reading("a1")])
    await stage.play()
    answer = stage.models["coder"].heard[1][-1]
    assert (answer.speaker, answer.call) == ("tool", "k7") and answer.text.startswith("error: invalid_json")
    verdict = json.loads(stage.models["coder"].heard[2][-1].text)
    assert (verdict["attempt"], verdict["outcome"], verdict["against_best"]["decision"]) == ("a1", "kept", "faster")


async def test_the_same_kernel_is_judged_once(stage: Stage) -> None:
    stage.script([proposal("x")], [judge(64), judge(64), says("Done.")], [reading("a1")])
    await stage.play()
    again = json.loads(stage.models["coder"].heard[2][-1].text)
    assert again["attempt"] == "a1" and "already_judged" in again
    judged_without_final = stage.executor.judged[:-1]
    assert len(judged_without_final) == len(set(judged_without_final)) == 2


async def test_edits_are_applied_and_refused_with_reason(stage: Stage) -> None:
    wrong = {"file": "kernel.cpp", "old": "BLOCK", "new": "B"}
    right = {"file": "kernel.cpp", "old": "args.x[0] * BLOCK", "new": "args.x[0] + BLOCK"}
    stage.script([proposal("x")], [judge(8, edits=[wrong]), judge(8, edits=[right]), says("Done.")], [reading("a1")])
    await stage.play()
    assert re.search(r"occurs \d+ times", stage.models["coder"].heard[1][-1].text)
    assert stage.run.attempt("a1").change.startswith("edited kernel.cpp (+1 -1) BLOCK=8")
    assert "args.x[0] + BLOCK" in (stage.run.path / "attempts/a1/kernel/kernel.cpp").read_text()


async def test_what_the_coder_built_but_did_not_hand_in_is_judged_for_it(stage: Stage) -> None:
    built = calls("compile", {"candidate": {"defines": {"BLOCK": 32}}})
    stage.script([proposal("x")], [built, says("I am done.")], [reading("a1")])
    await stage.play()
    assert stage.run.attempt("a1").kernel["defines"] == {"BLOCK": "32"}


async def test_a_planner_that_only_talks_is_reminded_and_then_passed_over(stage: Stage) -> None:
    stage.script([says("Hm."), says("Well."), says("No.")], [], [])
    outcome = await stage.play()
    assert (outcome.reason, outcome.iterations) == ("iterations", 1)
    assert [m.label for m in stage.models["planner"].heard[2] if m.label == "repair"] == ["repair"] * 2


async def test_parallel_hypotheses_are_judged_in_turn_each_against_the_best_by_then(stage: Stage) -> None:
    stage.script(
        [proposal("one", "two", "three")],
        [judge(32), judge(64), judge(16), says("Done."), says("Done."), says("Done.")],
        [
            calls(
                "diagnose",
                {
                    "diagnoses": [
                        json.loads(reading(f"a{n}").tool_calls[0].arguments)["diagnoses"][0] for n in (1, 2, 3)
                    ]
                },
            )
        ],
    )
    outcome = await stage.play(parallel=3)
    attempts = stage.run.attempts()
    assert [a.id for a in attempts] == ["a0", "a1", "a2", "a3"] and {a.iteration for a in attempts[1:]} == {1}
    assert {str(a.hypothesis["change"]) for a in attempts[1:] if a.hypothesis} == {"one", "two", "three"}
    best = min(attempts, key=lambda a: a.seconds or 9)
    assert outcome.best == best.id and attempts[1].outcome == "kept"


async def test_more_hypotheses_than_asked_for_are_refused(stage: Stage) -> None:
    stage.script([proposal("one", "two"), proposal("one")], [judge(16), says("Done.")], [reading("a1")])
    await stage.play()
    assert "Give at most 1" in stage.models["planner"].heard[1][-1].text


async def test_a_hypothesis_on_an_unknown_parent_is_refused(stage: Stage) -> None:
    ghost = calls("propose", {"hypotheses": [hypothesis(parent="a9")]})
    orphan = calls("propose", {"hypotheses": [hypothesis(parent=None)]})
    stage.script([ghost, orphan, proposal("one")], [judge(16), says("Done.")], [reading("a1")])
    await stage.play()
    answers = [heard[-1].text for heard in stage.models["planner"].heard[1:]]
    assert "no attempt a9" in answers[0] and "has no parent" in answers[1]


def expensive(line: Reply) -> Reply:
    return line.model_copy(
        update={"usage": line.usage.model_copy(update={"input_tokens": 900, "output_tokens": 100, "dollars": 3.0})}
    )


@pytest.mark.parametrize(
    ("budgets", "reason"),
    [
        ({"iterations": 1}, "iterations"),
        ({"iterations": 9, "near_limit": 0.9}, "near_limit"),
        ({"iterations": 9, "patience": 1}, "patience"),
        ({"iterations": 9, "dollars": 2.0}, "money"),
        ({"iterations": 9, "tokens": 1000}, "tokens"),
        ({"iterations": 9, "wall_time": 1e-9}, "wall_time"),
        ({"iterations": 9, "device_time": 1e-9}, "device_time"),
    ],
)
async def test_every_budget_ends_the_run_with_a_best_kernel(
    stage: Stage, budgets: dict[str, Any], reason: StopReason
) -> None:
    block = 8 if reason == "patience" else 64
    stage.script([expensive(proposal("x"))], [expensive(judge(block)), says("Done.")], [reading("a1")])
    outcome = await stage.play(**budgets)
    assert outcome.reason == reason and outcome.best is not None
    assert (
        [told["reason"] for told in stage.told("stopping")]
        == [reason]
        == [t["reason"] for t in stage.told("run_ended")]
    )
    assert (stage.run.path / "best" / "kernel" / "kernel.cpp").is_file()


@pytest.mark.parametrize(
    ("budgets", "budget", "when"),
    [
        ({"iterations": 5}, "iterations", 4),
        ({"iterations": 9, "patience": 5}, "patience", 4),
        ({"iterations": 9, "dollars": 11.0}, "money", 3),
        ({"iterations": 9, "tokens": 3700}, "tokens", 3),
    ],
)
async def test_at_four_fifths_of_a_budget_it_is_told_once_and_the_planner_knows(
    stage: Stage, budgets: dict[str, Any], budget: str, when: int
) -> None:
    """Each iteration takes a planner's call at $3 and 1000 tokens, and judges one kernel that is no better."""
    blocks = iter(range(7, 0, -1))
    plans = [expensive(proposal(f"x{i}")) for i in range(9)]
    coder = [lambda _: judge(next(blocks)), says("Done.")] * 9
    stage.script(plans, coder, [reading(f"a{i}") for i in range(1, 9)])
    outcome = await stage.play(**budgets)
    assert outcome.reason == budget
    assert [(told["budget"], told["iteration"]) for told in stage.told("budget_low")] == [(budget, when)]
    asked = {m.text.split()[1]: m.text for heard in stage.models["planner"].heard for m in heard if m.label == "ask"}
    warned = [int(n) for n, text in asked.items() if "More than four fifths are gone" in text]
    assert warned == [n for n in range(1, len(asked) + 1) if n > when]


async def test_it_is_told_too_when_coders_wait_for_each_others_calls(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three ask at 1000 of 3700 tokens, before a reply comes, and are let go one after the other before a kernel is
    judged: 2000, 3000, 4000."""
    asked, persist, reply, judged = 0, asking.persist, ScriptedModel.reply, stage.executor.evaluate

    async def count(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        return await persist(*args)

    async def reply_later(*args: Any) -> Any:
        while 1 < asked < 4:  # the planner asked first
            await asyncio.sleep(0)
        return await reply(*args)

    async def judge_later(*args: Any, **more: Any) -> Any:
        while stage.models["planner"].heard and len(stage.models["coder"].heard) < 3:
            await asyncio.sleep(0)
        return await judged(*args, **more)

    monkeypatch.setattr(asking, "persist", count)
    monkeypatch.setattr(ScriptedModel, "reply", reply_later)
    monkeypatch.setattr(stage.executor, "evaluate", judge_later)
    stage.script(
        [expensive(proposal("x", "y", "z"))], [expensive(judge(block)) for block in (16, 32, 64)], [reading("a1")]
    )
    outcome = await stage.play(parallel=3, iterations=9, tokens=3700)
    assert outcome.reason == "tokens"
    assert [(told["budget"], told["used"]) for told in stage.told("budget_low")] == [("tokens", 3000)]


async def test_the_time_budget_begins_when_the_start_was_judged(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which opening the task and each evaluation take an hour."""
    now = [0.0]
    monkeypatch.setattr(stage.control.stopping, "now", lambda: now[0])
    judged, opened = stage.executor.evaluate, stage.executor.open

    async def slow_open(*args: Any, **more: Any) -> Any:
        now[0] += 3600
        return await opened(*args, **more)

    async def slow_judge(*args: Any, **more: Any) -> Any:
        now[0] += 3600
        return await judged(*args, **more)

    monkeypatch.setattr(stage.executor, "open", slow_open)
    monkeypatch.setattr(stage.executor, "evaluate", slow_judge)
    stage.script(
        [proposal("x"), proposal("y")],
        [judge(64), says("Done."), judge(128), says("Done.")],
        [reading("a1"), reading("a2")],
    )
    outcome = await stage.play(iterations=9, wall_time=7600)
    assert (outcome.reason, outcome.iterations) == ("wall_time", 2)
    assert [(told["budget"], told["used"]) for told in stage.told("budget_low")] == [("wall_time", 7200)]
    stage.script([proposal("z")], [judge(256), says("Done.")], [reading("a3")])
    outcome = await stage.play(iterations=9, wall_time=14800)
    assert (outcome.reason, outcome.iterations, outcome.elapsed) == ("wall_time", 3, 5 * 3600)


async def test_a_planner_with_nothing_left_ends_the_run(stage: Stage) -> None:
    stage.script([proposal()], [], [])
    outcome = await stage.play(iterations=9)
    assert (outcome.reason, outcome.iterations, outcome.best) == ("exhausted", 0, "a0")


async def test_an_unavailable_model_ends_the_run_which_then_goes_on_where_it_was(stage: Stage) -> None:
    def gone(_: Sequence[Message]) -> Reply:
        raise ModelUnavailable("no answer for an hour")

    stage.script([proposal("x")], [judge(64), gone], [])
    assert (await stage.play()).reason == "models_unavailable"
    stage.script([], [says("Done.")], [reading("a1")])
    outcome = await stage.play()
    assert (outcome.reason, outcome.iterations, len(stage.run.attempts())) == ("iterations", 1, 2)
    assert stage.executor.judged[:-1] == [a.kernel_id for a in stage.run.attempts()]


async def test_stopping_in_the_middle_of_an_evaluation_keeps_everything(stage: Stage) -> None:
    def hang(_: Sequence[Message]) -> Reply:
        stage.executor.hang = True
        asyncio.get_running_loop().call_later(0.1, stage.control.stop, "user", 0.1)
        return judge(32)

    stage.script([proposal("x")], [judge(64), hang], [])
    outcome = await asyncio.wait_for(stage.play(iterations=9), 20)
    assert (outcome.reason, outcome.best, outcome.final) == ("user", "a1", None)
    assert stage.run.best() == "a1" and stage.run.outcome() is not None
    assert stage.told("run_ended")[0]["reason"] == "user"


async def test_stopping_while_the_starting_kernel_is_judged_ends_the_run_as_any_other(stage: Stage) -> None:
    """No step has ended by then, so the state is as the graph was given it."""
    stage.executor.hang = True
    stage.script([], [], [])
    asyncio.get_running_loop().call_later(0.3, stage.control.stop, "user", 0.1)
    outcome = await asyncio.wait_for(stage.play(iterations=9), 20)
    assert (outcome.reason, outcome.iterations, outcome.best, outcome.device_seconds) == ("user", 0, None, 0.0)
    assert stage.run.outcome() is not None


async def test_cancelling_the_coroutine_writes_the_outcome_and_goes_on_cancelling(stage: Stage) -> None:
    def hang(_: Sequence[Message]) -> Reply:
        stage.executor.hang = True
        asyncio.get_running_loop().call_later(0.1, work.cancel)
        return judge(32)

    stage.script([proposal("x")], [hang], [])
    work = asyncio.create_task(stage.play(iterations=9))
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (stage.run.outcome() or {})["reason"] == "user"


async def test_a_stop_before_the_start_does_no_work(stage: Stage) -> None:
    stage.control.stop()
    outcome = await stage.play("autotune")
    assert (outcome.reason, outcome.best, stage.executor.judged) == ("user", None, [])


async def test_a_broken_judge_ends_the_run_and_it_can_go_on(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> Verdict:
        raise InfrastructureError("the service died twice")

    stage.script([proposal("x")], [judge(64)], [])
    with monkeypatch.context() as patch:
        patch.setattr(stage.executor, "profile", broken)
        stage.script([proposal("x")], [calls("profile", {"attempt": "a0"})], [])
        with pytest.raises(InfrastructureError, match="died twice"):
            await stage.play()
    assert stage.told("run_failed")[0]["message"] == "the service died twice"
    stage.script([], [judge(64), says("Done.")], [reading("a1")])
    assert (await stage.play()).best == "a1"


async def test_a_judge_that_learns_nothing_is_not_asked_for_ever(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unjudged(_: Any, kernel: Kernel, *__: Any, **___: Any) -> Verdict:
        return Unjudged(kernel=kernel.id, message="no free memory")

    monkeypatch.setattr(stage.executor, "evaluate", unjudged)
    stage.script([proposal("x")], [judge(16), judge(32)], [])
    with pytest.raises(InfrastructureError, match="3 kernels in a row"):
        await stage.play()
    assert stage.run.best() is None and not (stage.run.path / "best").exists()


async def test_a_winner_that_does_not_stand_loses_its_place(stage: Stage) -> None:
    stage.script([proposal("x")], [judge(64), says("Done.")], [reading("a1")])
    seen: list[str] = []

    def lucky_once(kernel: Kernel) -> float | None:
        seen.append(kernel.id)
        return None if seen.count(kernel.id) > 1 and kernel.defines else SLOWER_WITH_LESS_BLOCK(kernel)

    stage.executor.first_seconds_of = lucky_once
    outcome = await stage.play()
    assert outcome.best == "a0" == stage.run.best()
    assert stage.run.final("a1") is not None and (stage.run.final("a1") or {})["confirmed"] is False


async def test_a_last_race_that_other_programs_disturbed_refutes_nothing(stage: Stage) -> None:
    stage.script([proposal("x")], [judge(64), says("Done.")], [reading("a1")])
    seen: list[str] = []

    def slow_when_seen_again(kernel: Kernel) -> float | None:
        seen.append(kernel.id)
        return 9.0 if seen.count(kernel.id) > 1 else SLOWER_WITH_LESS_BLOCK(kernel)

    stage.executor.first_seconds_of = slow_when_seen_again
    stage.executor.cores_used_by_others = 1.5
    outcome = await stage.play()
    assert outcome.best == "a1" == stage.run.best()
    assert outcome.final is not None and outcome.final["cores_used_by_others"] == 1.5


async def test_without_a_starting_kernel_autotune_says_what_to_do(stage: Stage) -> None:
    bare = TASK.model_copy(update={"start": {}})
    with pytest.raises(KernelError, match="no starting kernel") as caught:
        await optimize(bare, RunSettings(), stage.run, stage.executor, stage.events.append)
    assert "--start" in caught.value.advice


async def test_without_a_starting_kernel_a_model_writes_the_first(stage: Stage) -> None:
    first = calls("propose", {"hypotheses": [hypothesis(parent=None)]})
    files = {"kernel.cpp": '#include "task.h"\n'}
    stage.script(
        [first], [calls("run", {"mode": "full", "candidates": [{"files": files}]}), says("Done.")], [reading("a0")]
    )
    bare = TASK.model_copy(update={"start": {}})
    settings = RunSettings(
        budgets=Budgets(iterations=1),
        models=Models(planner="scripted:planner", coder="scripted:coder", analyst="scripted:analyst"),
    )
    outcome = await optimize(bare, settings, stage.run, stage.executor, stage.events.append)
    assert (outcome.best, stage.run.attempt("a0").iteration) == ("a0", 1)


async def test_autotune_plays_all_roles_with_parallel_coders(stage: Stage) -> None:
    outcome = await stage.play("autotune", parallel=3, iterations=8)
    attempts = stage.run.attempts()
    assert len({a.kernel_id for a in attempts}) == len(attempts) > 20
    assert stage.run.attempt(outcome.best or "").kernel["defines"]["BLOCK"] == "256"  # type: ignore[index, call-overload]
    winners = [told["best"] for told in stage.told("iteration_ended")]
    assert stage.executor.profiled == [stage.run.attempt(best).kernel_id for best in dict.fromkeys(winners)]


async def test_a_run_that_ended_goes_on_with_a_larger_budget(stage: Stage) -> None:
    assert (await stage.play("autotune", iterations=2)).iterations == 2
    assert (await stage.play("autotune", iterations=4)).iterations == 4
    assert len(stage.run.attempts()) == 5


@pytest.mark.parametrize("fatal", [1, 2, 3, 6])
async def test_killed_in_the_middle_nothing_finished_is_paid_for_twice(
    stage: Stage, fatal: int, caplog: pytest.LogCaptureFixture
) -> None:
    root = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": f"{root.parent}:{root}"}
    command = [sys.executable, "-P", str(root / "killed_run.py"), str(stage.run.path), str(fatal)]
    child = subprocess.run(command, env=environment, check=False, capture_output=True)
    assert child.returncode == -9, child.stderr
    before = RunFolder(stage.run.path).attempts()
    assert len(before) == fatal - 1
    asked_before = [e for e in stage.run.events() if e["event"] == "model_called"]
    with caplog.at_level(logging.WARNING):
        run = RunFolder(stage.run.path)
        outcome = await optimize(TASK, killed_run.SETTINGS, run, stage.executor, stage.events.append)
    attempts = run.attempts()
    assert outcome.iterations == 6 and attempts[: len(before)] == before
    assert len({a.kernel_id for a in attempts}) == len(attempts)
    assert stage.executor.judged[:-1] == [a.kernel_id for a in attempts[len(before) :]]
    planned = [e["role"] for e in asked_before].count("planner") + [
        e["role"] for e in stage.told("model_called")
    ].count("planner")
    assert planned == 6
    assert "Blocked deserialization" not in caplog.text and "unregistered" not in caplog.text


async def test_every_reply_and_answer_is_in_the_transcript(stage: Stage) -> None:
    stage.script([proposal("x")], [judge(64), says("Done.")], [reading("a1")])
    await stage.play()
    lines = [json.loads(line) for line in (stage.run.path / "transcript/0001-coder-0.jsonl").read_text().splitlines()]
    spoken = [line["speaker"] for line in lines]
    assert spoken[:2] == ["view", "system"] and spoken[-3:] == ["assistant", "tool", "assistant"]
    assert "# The task: stub" in stage.run.blobs.get(lines[1]["blob"])


async def test_a_turn_never_outgrows_the_window(stage: Stage) -> None:
    """A coder that reads a lot: its oldest answers give way, its newest stays whole."""
    model = ScriptedModel(
        [*(calls("show", {"attempt": "a0"}, call=f"k{i}") for i in range(60)), judge(64), says("Done.")],
        window=30_000,
    )
    stage.script([proposal("x")], [], [reading("a1")])
    stage.models["coder"] = model
    settings = RunSettings(
        budgets=Budgets(iterations=1, near_limit=None),
        models=Models(planner="scripted:planner", coder="scripted:coder", analyst="scripted:analyst"),
        reply_tokens=1000,
        turn_steps=99,
    )
    await optimize(TASK, settings, stage.run, stage.executor, stage.events.append)
    sizes = [sum(COUNTER.count(m.text) for m in heard) * bound_of("scripted:test") for heard in model.heard]
    assert max(sizes) < 29_000 and sizes[5] > sizes[0]
    answers = [m.text for m in model.heard[60] if m.speaker == "tool"]
    assert '"files"' in answers[-1] and "extern" in answers[-1]


def test_the_graph_goes_where_its_types_say() -> None:
    drawn = build_graph(InMemorySaver()).get_graph()
    edges = {(edge.source, edge.target) for edge in drawn.edges}
    assert edges == {
        ("__start__", "begin"),
        ("begin", "plan"),
        ("plan", "code"),
        ("plan", "approve"),
        ("approve", "code"),
        ("approve", "plan"),
        ("plan", "analyse"),
        ("plan", "finish"),
        ("code", "analyse"),
        ("code", "choose"),
        ("choose", "analyse"),
        ("analyse", "plan"),
        ("finish", "__end__"),
    }


@pytest.mark.slow
async def test_a_checkpoint_is_small_and_does_not_grow_with_the_run(stage: Stage) -> None:
    outcome = await stage.play("autotune", iterations=60)
    assert outcome.iterations == 60
    with sqlite3.connect(stage.run.path / "state.sqlite") as database:
        sizes = [size for (size,) in database.execute("select length(checkpoint) from checkpoints order by rowid")]
    assert max(sizes) < 64_000
    assert max(sizes[-30:]) < 1.05 * max(sizes[30:60]), "ids and counts alone, whose digits may grow"


async def test_a_starting_kernel_that_is_rejected_is_still_tuned(stage: Stage) -> None:
    stage.executor.first_seconds_of = lambda kernel: killed_run.seconds_of(kernel) if kernel.defines else None
    outcome = await stage.play("autotune", iterations=3)
    assert stage.run.attempt("a0").outcome == "rejected"
    assert outcome.best in ("a1", "a2", "a3") and outcome.rejections == {"wrong_result": 1}


async def test_a_start_that_does_not_compile_is_not_tuned_until_the_time_is_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: Any, kernel: Kernel, *__: Any, **___: Any) -> Verdict:
        report = StageReport(stage="build", passed=False, seconds=0.0)
        why = "kernel.cpp:3: error: expected ';'"
        return Rejected(kernel=kernel.id, stage="build", reason="compile_error", message=why, stages=(report,))

    monkeypatch.setattr(stage.executor, "evaluate", broken)
    outcome = await stage.play("autotune", iterations=99, wall_time=600.0)
    assert (outcome.reason, outcome.best, len(stage.run.attempts())) == ("exhausted", None, 4)


async def test_a_winner_that_can_not_be_measured_again_stays_the_best(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_as_ever = stage.executor.evaluate

    async def no_final(*arguments: Any, final: bool = False) -> Verdict:
        if final:
            return Unjudged(kernel=arguments[1].id, message="no free memory")
        return await judge_as_ever(*arguments)

    monkeypatch.setattr(stage.executor, "evaluate", no_final)
    stage.script([proposal("x")], [judge(64), says("Done.")], [reading("a1")])
    outcome = await stage.play()
    assert (outcome.reason, outcome.best, outcome.final) == ("iterations", "a1", None)
