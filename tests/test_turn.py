"""The closed cases of a turn: what each reply that can't be used yields, told to the model and bounded in number.

Also the three ways in which code arrives: as a tool's argument, as an edit of the parent, in a fenced block.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_model import calls, says
from scripted_run import Stage, judge, proposal, reading, set_up

from agents.edits import replace_once
from agents.models.base import Message, Reply, Usage
from agents.repairs import fenced_kernel
from agents.toolbox import Refused

KERNEL = '#include "task.h"\nextern "C" void solve(const task::Args& args, void*) { args.y[0] = args.x[0] * 5; }\n'
FENCED = says(f"Here it is.\n\n```cpp\n{KERNEL}```\n")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


def cut(reply: Reply) -> Reply:
    return reply.model_copy(update={"stop": "length"})


def both(*replies: Reply) -> Reply:
    """One reply with the calls of all."""
    made = [call.model_copy(update={"id": f"k{i}"}) for i, reply in enumerate(replies) for call in reply.tool_calls]
    return Reply(tool_calls=tuple(made), stop="tools")


def last(stage: Stage, role: str, call: int) -> Message:
    """What the role's model was told last before its reply of that number (from 0)."""
    return stage.models[role].heard[call][-1]


async def test_parallel_calls_are_all_made_in_their_order_and_each_gets_its_answer(stage: Stage) -> None:
    looks = both(judge(16), calls("show", {"attempt": "a0"}), calls("nonsense", {}), judge(32))
    stage.script([proposal("x")], [looks, says("Done.")], [both(reading("a1"), reading("a2"))])
    await stage.play()
    answers = stage.models["coder"].heard[1][-4:]
    assert [(m.speaker, m.call, m.failed) for m in answers] == [
        ("tool", "k0", False),
        ("tool", "k1", False),
        ("tool", "k2", True),
        ("tool", "k3", False),
    ]
    assert [a.kernel["defines"] for a in stage.run.attempts()[1:]] == [{"BLOCK": "16"}, {"BLOCK": "32"}]
    assert stage.run.diagnosis("a1") and stage.run.diagnosis("a2"), "the second of two calls that end a turn counts"


async def test_hypotheses_of_several_calls_are_taken_together_up_to_the_limit(stage: Stage) -> None:
    stage.script([both(proposal("one"), proposal("two"), proposal("three"))], [], [both(reading("a1"), reading("a2"))])
    stage.models["coder"]._lines = [judge(16), judge(32), says("Done."), says("Done.")]
    await stage.play(parallel=2)
    assert {str((a.hypothesis or {})["change"]) for a in stage.run.attempts()[1:]} == {"one", "two"}


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (calls("run", "{"), "invalid_json"),
        (calls("run", ""), "wrong_arguments"),
        (calls("run", "[1]"), "wrong_arguments"),
        (calls("run", {"mode": "fast", "candidates": []}), "wrong_arguments"),
        (calls("run", {"mode": "full", "candidates": "a1"}), "wrong_arguments"),
        (calls("juge", {}), "unknown_tool"),
        (calls("", {}), "unknown_tool"),
    ],
)
async def test_a_call_that_does_not_fit_is_answered_under_its_id_and_made_again(
    stage: Stage, bad: Reply, fault: str
) -> None:
    stage.script([proposal("x")], [bad, judge(64), says("Done.")], [reading("a1")])
    assert (await stage.play()).best == "a1"
    answer = last(stage, "coder", 1)
    assert answer.text.startswith(f"error: {fault}: ") and (answer.call, answer.failed) == ("c0", True)
    assert [(e["case"], e["role"]) for e in stage.told("model_corrected")] == [("arguments", "coder")]


async def test_calls_that_were_cut_off_are_not_made(stage: Stage) -> None:
    """Even those whose arguments are whole: the model had not finished."""
    stage.script([proposal("x")], [cut(judge(8)), judge(64), says("Done.")], [reading("a1")])
    await stage.play()
    told = last(stage, "coder", 1)
    assert (told.speaker, told.label) == ("user", "repair")
    assert "cut off" in told.text and "run was not called" in told.text and "`edits`" in told.text
    assert all(not m.tool_calls for m in stage.models["coder"].heard[1]), "a call without an answer breaks providers"
    assert [a.kernel["defines"] for a in stage.run.attempts()[1:]] == [{"BLOCK": "64"}]


async def test_a_fenced_block_that_was_cut_off_is_not_judged(stage: Stage) -> None:
    stage.script([proposal("x")], [cut(FENCED), judge(64), says("Done.")], [reading("a1")])
    await stage.play()
    assert [a.kernel["defines"] for a in stage.run.attempts()[1:]] == [{"BLOCK": "64"}]


async def test_an_empty_reply_is_answered(stage: Stage) -> None:
    stage.script([says("  \n"), proposal("x")], [says(""), judge(64), says("Done.")], [says(""), reading("a1")])
    assert (await stage.play()).best == "a1"
    for role, tool in (("planner", "propose"), ("coder", "run"), ("analyst", "diagnose")):
        told = last(stage, role, 1)
        assert told.text.startswith("Your reply was empty.") and f"`{tool}`" in told.text
        assert stage.models[role].heard[1][-2].speaker != "assistant", "no provider takes an empty message"
    assert [e["case"] for e in stage.told("model_corrected")] == ["empty"] * 3


async def test_prose_instead_of_a_call_is_answered_and_ends_only_a_coders_turn_that_built_something(
    stage: Stage,
) -> None:
    stage.script(
        [says("Larger blocks."), proposal("x")],
        [says("I would use larger blocks."), judge(64), says("Done.")],
        [says("It streams."), reading("a1")],
    )
    assert (await stage.play()).best == "a1"
    told = last(stage, "coder", 1)
    assert "No candidate was built or judged yet" in told.text and "whole kernel.cpp in one fenced block" in told.text
    assert stage.models["coder"].heard[1][-2] == Message(speaker="assistant", text="I would use larger blocks.")
    assert len(stage.models["coder"].heard) == 3


@pytest.mark.parametrize(
    ("reply", "case"),
    [
        (says(""), "empty"),
        (says("Hm."), "prose"),
        (calls("run", "{"), "arguments"),
        (cut(says("I thi")), "truncated"),
    ],
)
async def test_replies_that_can_not_be_used_end_the_turn_after_as_many_as_are_set(
    stage: Stage, reply: Reply, case: str
) -> None:
    stage.script([proposal("x")], [reply] * 2, [])
    outcome = await stage.play(settings={"format_failures": 2})
    assert (outcome.reason, outcome.iterations, len(stage.run.attempts())) == ("iterations", 1, 1)
    assert len(stage.models["coder"].heard) == 2 and [e["case"] for e in stage.told("model_corrected")] == [case]


async def test_only_failures_in_a_row_count(stage: Stage) -> None:
    stage.script([proposal("x")], [says(""), judge(16), says(""), judge(32), says(""), judge(64), says("Done.")], [])
    stage.add("analyst", [both(*(reading(f"a{n}") for n in (1, 2, 3)))])
    outcome = await stage.play(settings={"format_failures": 2})
    assert outcome.best == "a3" and stage.told("model_changed") == []


async def test_a_model_that_declines_is_asked_again_and_then_there_is_no_model(stage: Stage) -> None:
    declines = Reply(text="I can't help with that.", stop="refused", usage=Usage(output_tokens=5))
    stage.script([proposal("x")], [declines] * 3, [])
    outcome = await stage.play()
    assert outcome.reason == "models_unavailable" and outcome.best == "a0"
    assert "declined" in last(stage, "coder", 1).text and len(stage.models["coder"].heard) == 3
    assert "refusal: it declined 3 times" in stage.told("stopping")[0]["message"]
    stage.add("another", [judge(64), says("Done.")])
    stage.add("analyst", [reading("a1")])
    stage.models["coder"] = stage.models["another"]
    assert (await stage.play()).best == "a1", "a resumed run goes on with another model"
    assert outcome.output_tokens == 15


# --- code arrives in three ways --------------------------------------------------------------------------------------


async def test_code_as_an_argument(stage: Stage) -> None:
    argument = calls("run", {"mode": "full", "candidates": [{"files": {"kernel.cpp": KERNEL}}]})
    stage.script([proposal("x")], [argument, says("Done.")], [reading("a1")])
    await stage.play()
    assert stage.run.attempt("a1").kernel["files"] == {"kernel.cpp": KERNEL}


async def test_code_as_an_edit_of_the_parent(stage: Stage) -> None:
    edit = {"file": "kernel.cpp", "old": "args.x[0] * BLOCK", "new": "args.x[0] + BLOCK"}
    stage.script([proposal("x")], [judge(8, edits=[edit]), says("Done.")], [reading("a1")])
    await stage.play()
    assert "args.x[0] + BLOCK" in str(stage.run.attempt("a1").kernel["files"])


async def test_code_in_a_fenced_block_is_judged_like_a_call(stage: Stage) -> None:
    stage.script([proposal("x")], [FENCED, says("Done.")], [reading("a1")])
    await stage.play()
    assert stage.run.attempt("a1").kernel["files"] == {"kernel.cpp": KERNEL}
    told = last(stage, "coder", 1)
    assert (told.speaker, told.label, told.call) == ("user", "run", None), "no call asked for it"
    assert "judged like a call to `run`" in told.text and '"attempt": "a1"' in told.text
    assert stage.told("model_corrected") == [] and [e["tool"] for e in stage.told("tool_called")][1] == "run"


async def test_the_same_fenced_block_again_is_an_end_and_not_a_loop(stage: Stage) -> None:
    stage.script([proposal("x")], [FENCED, FENCED], [reading("a1")])
    await stage.play()
    assert len(stage.run.attempts()) == 2


async def test_a_fenced_block_beside_a_call_is_only_talk(stage: Stage) -> None:
    spoken = judge(64).model_copy(update={"text": FENCED.text})
    stage.script([proposal("x")], [spoken, says("Done.")], [reading("a1")])
    await stage.play()
    assert stage.run.attempt("a1").kernel["defines"] == {"BLOCK": "64"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"```cpp\n{KERNEL}```", True),
        (f"~~~c++ kernel.cpp\n{KERNEL}~~~", True),
        (f"````\n{KERNEL}````", True),
        (f"old:\n```cpp\nvoid solve() {{}}\n```\nnew:\n```cpp\n{KERNEL}```", True),
        (f"```python\n{KERNEL}```", False),
        ("```cpp\nfor (;;) {}\n```", False),
        (f"```cpp\n{KERNEL}", False),
        ("no code at all, but solve(it)", False),
    ],
)
def test_which_fenced_block_is_an_entry_file(text: str, found: bool) -> None:
    assert fenced_kernel(text, "cpp") == (KERNEL if found else None)


# --- edits that do not apply -----------------------------------------------------------------------------------------

FILES = {
    "kernel.cpp": "int a;\nvoid f() {\n  for (int i = 0; i < n; ++i) {\n    y[i] = x[i];\n  }\n}\nint a;\n",
    "other.h": "int other;\n",
}


@pytest.mark.parametrize(
    ("file", "old", "words"),
    [
        ("kernel.cpp", "int a;", ["occurs 2 times", "    1: int a;", "    7: int a;"]),
        (
            "kernel.cpp",
            "for (int i=0; i<n; ++i) {\n\ty[i] = x[i];\n}",
            ["other blanks or tabs", "    3:   for (int i = 0; i < n; ++i) {", "    4:     y[i] = x[i];"],
        ),
        ("kernel.cpp", "y[i]=x[i];", ["other blanks or tabs", "    4:     y[i] = x[i];"]),
        ("kernel.cpp", "    y[i] = x[j];", ["most like it", "    4:     y[i] = x[i];"]),
        ("kernel.cpp", "int other;", ["not in kernel.cpp, but in other.h"]),
        ("kernel.cpp", "while (true) launch_missiles();", ["nor anything like it", "7 lines"]),
        ("gone.cpp", "x", ["there is no file gone.cpp", "kernel.cpp, other.h"]),
    ],
)
def test_an_edit_that_does_not_apply_says_why_and_shows_the_lines(file: str, old: str, words: list[str]) -> None:
    with pytest.raises(Refused) as caught:
        replace_once(FILES, file, old, "new")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_an_edit_that_applies_changes_one_place() -> None:
    assert replace_once(FILES, "other.h", "other", "another") == "int another;\n"


async def test_a_coder_sees_the_lines_that_its_edit_missed(stage: Stage) -> None:
    edit = {"file": "kernel.cpp", "old": "args.y[0]=args.x[0]*BLOCK;", "new": "return;"}
    stage.script([proposal("x")], [judge(8, edits=[edit]), judge(64), says("Done.")], [reading("a1")])
    await stage.play()
    told = last(stage, "coder", 1).text
    assert told.startswith("error: refused: ") and "    7: extern" in told


# --- what is heard and kept ------------------------------------------------------------------------------------------


async def test_replies_are_heard_by_role_as_they_come_and_not_stored_as_events(stage: Stage) -> None:
    stage.script([proposal("x")], [judge(64), says("Done.")], [reading("a1")])
    await stage.play()
    assert stage.heard == [("coder", "Done.")] and all("Done." not in json.dumps(e.fields) for e in stage.events)


async def test_corrections_are_in_the_transcript_in_their_place(stage: Stage) -> None:
    stage.script([proposal("x")], [says("Hm."), FENCED, says("Done.")], [reading("a1")])
    await stage.play()
    lines = [(line["speaker"], line.get("label", "")) for line in stage.spoken("0001-coder-0")]
    assert lines[-7:] == [
        ("user", "ask"),
        ("assistant", ""),
        ("user", "repair"),
        ("assistant", ""),
        ("tool", ""),
        ("user", "run"),
        ("assistant", ""),
    ]


@pytest.mark.parametrize("line", [says(""), FENCED])
async def test_a_turn_is_bounded_by_its_steps(stage: Stage, line: Reply) -> None:
    def another(_: Any, seen: list[int] = []) -> Reply:  # noqa: B006 (counts calls)
        seen.append(1)
        return line.model_copy(update={"text": line.text.replace("* 5", f"* {len(seen)}")})

    lines: list[Reply | Callable[[Any], Reply]] = [another] * 4
    stage.script([proposal("x")], lines, [both(*(reading(f"a{n}") for n in (1, 2, 3, 4)))])
    await stage.play(settings={"turn_steps": 4, "format_failures": 9})
    assert len(stage.models["coder"].heard) == 4
