"""A person's hand on a run: every action takes effect, is an event, and survives a kill. Nothing is measured here."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import steered_run
from clean_fork import run_apart
from rich.console import Console
from scripted_model import calls, says
from scripted_run import Stage, hypothesis, judge, proposal, reading, set_up
from stub_executor import KERNEL

from agents import steering_actions as acts
from agents.models.base import Message, Reply
from agents.seat import Candidate, changed
from agents.state import Hypothesis
from agents.steering_actions import ACTIONS, Action
from agents.steering_box import BOX, Box, give
from agents.steering_fork import FORKED, successor_of
from agents.wishes import Wishes
from app.live import progress_for
from app.steer_words import in_words
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.records import Kernel


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


def told(stage: Stage, kind: str = "steered") -> list[dict[str, Any]]:
    return stage.told(kind)


def giving(stage: Stage, reply: Reply, *actions: Action) -> Any:
    """A model's line that gives these actions while it is asked, as a person would meanwhile."""

    def line(_: Sequence[Message]) -> Reply:
        for action in actions:
            give(stage.run.path, action)
        return reply

    return line


def asked(stage: Stage, role: str, number: int = -1) -> str:
    """The whole prompt of one of a role's calls."""
    return "\n".join(message.text for message in stage.models[role].heard[number])


def edited(note: str = "by me", block: str = "64", parent: str | None = None) -> acts.EditKernel:
    return acts.EditKernel(files={"kernel.cpp": KERNEL}, defines={"BLOCK": block}, note=note, parent=parent)


# --- each action ------------------------------------------------------------------------------------------------------


async def test_a_hint_is_heard_until_it_is_withdrawn(stage: Stage) -> None:
    hint = acts.Hint(text="rows are short")
    stage.script(
        [
            giving(stage, proposal("a"), hint),
            giving(stage, proposal("b"), acts.Withdraw(text=hint.text)),
            proposal("c"),
        ],
        [judge(16), says("ok"), judge(32), says("ok"), judge(64), says("ok")],
        [reading("a1"), reading("a2"), reading("a3")],
    )
    await stage.play(iterations=3)
    heard = ["rows are short" in asked(stage, "planner", i) for i in range(3)]
    assert heard == [False, True, False]
    assert [f["action"] for f in told(stage)] == ["hint", "withdraw"]
    assert [f["iteration"] for f in told(stage)] == [2, 3]


async def test_who_gives_a_hint_learns_that_what_is_built_in_reads_none(stage: Stage) -> None:
    give(stage.run.path, acts.Hint(text="rows are short"))
    await stage.play(model="autotune", iterations=1)
    (fields,) = told(stage)
    assert fields["about"] == {"text": "rows are short", "read_by": []}
    said = in_words("hint", fields["about"])
    assert "nobody reads it: builtin:autotune reads no hints; it is kept for a model that comes" in said
    assert "only the coder reads it" in in_words("hint", {"text": "x", "read_by": ["coder"]})
    assert "the coder and the analyst read it" in in_words("hint", {"text": "x", "read_by": ["coder", "analyst"]})
    assert in_words("hint", {"text": "x", "read_by": ["planner", "coder", "analyst"]}) == "hint: x"
    assert stage.run.standing_hints() == ["rows are short"]


async def test_a_pause_holds_the_run_until_it_goes_on(stage: Stage) -> None:
    stage.script([giving(stage, proposal("a"), acts.Pause())], [judge(16), says("ok")], [reading("a1")])
    playing = asyncio.create_task(stage.play())
    while not told(stage):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.4)  # what must not happen meanwhile would have
    assert stage.models["coder"].asked == [] and not playing.done()
    give(stage.run.path, acts.GoOn())
    outcome = await playing
    assert outcome.iterations == 1 and len(stage.run.attempts()) == 2
    assert outcome.elapsed < 0.4, "waiting for a person is no work"


async def test_a_plan_waits_and_is_approved_edited_or_rejected(stage: Stage) -> None:
    mine = Hypothesis.model_validate(hypothesis("my own idea"))

    def decide(line: Any) -> None:
        if line.event == "plan_waits":
            give(stage.run.path, words.pop(0))

    words: list[Action] = [
        acts.Reject(why="too timid"),
        acts.Approve(),
        acts.EditPlan(hypotheses=(mine,)),
    ]
    stage.script(
        [proposal("first"), proposal("second"), proposal("third")],
        [judge(16), says("ok"), judge(32), says("ok")],
        [reading("a1"), reading("a2")],
    )
    stage.events = Heard(decide)
    await stage.play(iterations=2, settings={"approve": True})
    assert "too timid" in asked(stage, "planner", 1)
    changes = [a.hypothesis["change"] for a in stage.run.attempts()[1:] if a.hypothesis]
    assert changes == ["second", "my own idea"]
    assert [f["about"]["decided"] for f in told(stage)] == [1, 1, 2]


async def test_an_edited_plan_that_the_tuner_cannot_carry_out_is_refused_and_waits_on(stage: Stage) -> None:
    """The iteration would be used up with nothing tried."""
    changes = ["put the rows into registers", "BLOCK=16"]

    def decide(line: Any) -> None:
        if line.event in ("plan_waits", "steer_refused"):
            mine = Hypothesis.model_validate(hypothesis(changes.pop(0)))
            give(stage.run.path, acts.EditPlan(hypotheses=(mine,)))

    stage.script([proposal("first")], [judge(16), says("ok")], [reading("a1")])
    stage.models["coder"].name = "builtin:autotune"
    stage.events = Heard(decide)
    outcome = await stage.play(iterations=1, settings={"approve": True})
    assert outcome.iterations == 1 and not changes
    (refused,) = told(stage, "steer_refused")
    assert "builtin:autotune can't carry this out: 'put the rows into registers'" in refused["message"]
    assert [f["about"]["decided"] for f in told(stage)] == [1]


class Heard(list[Any]):
    """Events, with something that listens."""

    def __init__(self, listen: Any) -> None:
        super().__init__()
        self.listen = listen

    def append(self, event: Any) -> None:
        super().append(event)
        self.listen(event)


async def test_approval_can_be_switched_off_while_a_plan_waits(stage: Stage) -> None:
    stage.events = Heard(lambda e: give(stage.run.path, acts.Approval(on=False)) if e.event == "plan_waits" else None)
    stage.script(
        [proposal("a"), proposal("b")], [judge(16), says("ok"), judge(32), says("ok")], [reading("a1"), reading("a2")]
    )
    outcome = await stage.play(iterations=2, settings={"approve": True})
    assert outcome.iterations == 2 and len(told(stage, "plan_waits")) == 1
    assert stage.run.config()["settings"]["approve"] is False  # type: ignore[index, call-overload]


async def test_a_kernel_by_hand_is_judged_and_the_models_learn_of_it(stage: Stage) -> None:
    stage.script(
        [giving(stage, proposal("a"), edited("wider")), proposal("b")],
        [judge(16), says("ok"), judge(32), says("ok")],
        [says("x"), reading("a1"), reading("a2"), reading("a3")],
    )
    stage.models["analyst"]._lines = [reading("a1"), lambda m: reading(_named(m))]
    await stage.play(iterations=2)
    mine = next(a for a in stage.run.attempts() if a.person)
    assert (mine.person, mine.outcome, mine.hypothesis) == ("wider", "kept", None)
    assert told(stage)[0]["about"]["attempt"] == mine.id
    assert "by the user: wider" in asked(stage, "planner", 1)
    judged = next(f for f in stage.told("attempt_judged") if f["attempt"] == mine.id)
    assert judged["person"] == "wider"
    held = {fields["attempt"]: fields["hypothesis_held"] for fields in stage.told("diagnosed")}
    assert held.pop(mine.id) is None and True in held.values(), "a kernel by hand has no hypothesis"


async def test_a_value_that_a_person_writes_into_the_text_wins_over_the_settings(stage: Stage) -> None:
    text = KERNEL.replace("#define BLOCK 8", "#define BLOCK 128")
    by_hand = acts.EditKernel(files={"kernel.cpp": text}, note="wide", parent="a1")
    again = acts.EditKernel(files={"kernel.cpp": KERNEL + "// tidied"}, note="tidied", parent="a1")
    stage.script(
        [proposal("a"), giving(stage, proposal("b"), by_hand, again)],
        [judge(16, defines={"BLOCK": 16, "UNROLL": 4}), says("ok"), judge(32), says("ok")],
        [],
    )
    stage.models["analyst"]._lines = [lambda m: reading(_named(m)), lambda m: reading(_named(m))]
    await stage.play(iterations=2)
    mine = {a.person: a for a in stage.run.attempts() if a.person}
    assert mine["wide"].kernel["defines"] == {"UNROLL": "4"}
    assert mine["wide"].change == "edited kernel.cpp (+1 -1) BLOCK=128 UNROLL=4"
    assert mine["tidied"].kernel["defines"] == {"BLOCK": "16", "UNROLL": "4"}, "nothing was said of it"
    said = {fields["about"]["note"]: fields["about"] for fields in told(stage)}
    assert (said["wide"]["by_text"], said["tidied"]["by_text"]) == ({"BLOCK": "128"}, {})
    assert in_words("edit", said["wide"]).endswith(", with BLOCK=128 as its text has it")


def test_a_value_that_a_coder_writes_into_the_text_wins_too_unless_it_is_set() -> None:
    base = Kernel(language="cpp", files={"kernel.cpp": KERNEL}, defines={"BLOCK": "16", "UNROLL": "4"})
    wide = {"file": "kernel.cpp", "old": "#define BLOCK 8", "new": "#define BLOCK 128"}
    told = Candidate.model_validate({"edits": [wide]})
    assert changed(told, base, "cpp").defines == {"UNROLL": "4"}
    set_too = Candidate.model_validate({"edits": [wide], "defines": {"BLOCK": 64}})
    assert changed(set_too, base, "cpp").defines == {"BLOCK": "64", "UNROLL": "4"}


def _named(messages: Sequence[Message]) -> str:
    """The last attempt that the analyst is asked about."""
    line = next(
        line for m in messages for line in m.text.splitlines() if line.startswith("Iteration") and " judged " in line
    )
    return line.rstrip(".").split()[-1]


async def test_a_pinned_parent_and_a_fork_are_enforced(stage: Stage) -> None:
    def propose(change: str, *parents: str) -> list[Any]:
        return [calls("propose", {"hypotheses": [hypothesis(change, parent)]}) for parent in parents]

    stage.script(
        [
            giving(stage, proposal("a"), acts.Pin(attempt="a0")),
            *propose("b", "a1", "a0"),
            giving(stage, propose("c", "a0")[0], acts.Unpin(), acts.Fork(attempt="a2")),
            *propose("d", "a0", "a2"),
            *propose("e", "a1"),
        ],
        [line for block in (16, 32, 64, 128, 256) for line in (judge(block), says("ok"))],
        [reading(f"a{n}") for n in range(1, 6)],
    )
    await stage.play(iterations=5)
    assert [a.parent for a in stage.run.attempts()[1:]] == ["a0", "a0", "a0", "a2", "a1"]
    assert "to start from a0" in asked(stage, "planner", 1)
    assert stage.models["planner"].heard[2][-1].text.startswith("error: refused: the user wants")


async def test_a_forbidden_idea_is_refused_until_it_is_allowed(stage: Stage) -> None:
    stage.script(
        [
            giving(stage, proposal("a"), acts.Forbid(idea="unrolling loops")),
            proposal("Unroll the loops by 4; unrolling the inner loop"),
            giving(stage, proposal("pad the rows"), acts.Allow(idea="unrolling loops")),
            proposal("unrolling of loops"),
        ],
        [line for block in (16, 32, 64) for line in (judge(block), says("ok"))],
        [reading(f"a{n}") for n in range(1, 4)],
    )
    await stage.play(iterations=3)
    refused = [m.text for m in stage.models["planner"].heard[2] if m.failed]
    assert len(refused) == 1 and "the user forbids this idea: unrolling loops" in refused[0]


async def test_the_tuner_obeys_too(stage: Stage) -> None:
    """`builtin:autotune` is told in the same words as any model."""
    give(stage.run.path, acts.Forbid(idea="BLOCK=256"))
    stage.executor.first_seconds_of = lambda _: 1.0
    await stage.play(model="autotune", iterations=6)
    tried = [str(a.hypothesis["change"]) for a in stage.run.attempts()[1:] if a.hypothesis]
    assert len(tried) == 6 and not any("BLOCK=256" in change.split() for change in tried)


async def test_a_role_gets_another_model_which_a_resumed_run_keeps(stage: Stage) -> None:
    stage.script(
        [giving(stage, proposal("a"), acts.UseModel(role="coder", models=("scripted:other",)))], [], [reading("a1")]
    )
    stage.add("other", [judge(16), says("ok")])
    await stage.play()
    assert len(stage.run.attempts()) == 2 and stage.models["coder"].asked == []
    settings = stage.run.config()["settings"]
    assert settings["models"]["coder"] == "scripted:other"  # type: ignore[index, call-overload]


async def test_limits_are_changed_while_the_run_goes_on(stage: Stage) -> None:
    stage.script(
        [giving(stage, proposal("a"), acts.SetBudget(limits={"iterations": 1, "dollars": 3.5}))],
        [judge(16), says("ok")],
        [reading("a1")],
    )
    outcome = await stage.play(iterations=5)
    assert (outcome.reason, outcome.iterations) == ("iterations", 1)
    config = stage.run.config()
    assert config["settings"]["budgets"]["dollars"] == 3.5  # type: ignore[index, call-overload]
    assert config["history"][0]["changes"].keys() == {"budgets"}  # type: ignore[index, call-overload, union-attr]


async def test_accepting_ends_the_run_with_a_fresh_measurement(stage: Stage) -> None:
    stage.script([proposal("a"), giving(stage, proposal("b"), acts.Accept())], [judge(16), says("ok")], [reading("a1")])
    outcome = await stage.play(iterations=9)
    assert (outcome.reason, outcome.best) == ("user", "a1") and outcome.final is not None


async def test_stopping_ends_it_at_once(stage: Stage) -> None:
    stage.script([proposal("a")], [giving(stage, judge(16), acts.Stop())], [])
    outcome = await stage.play(iterations=9)
    assert outcome.reason == "user"


async def test_another_policy_goes_on_as_another_run_from_the_best_kernel(stage: Stage) -> None:
    give(stage.run.path, acts.Hint(text="rows are short"))
    stage.script(
        [proposal("a"), giving(stage, proposal("b"), acts.SetPolicy(policy="mixed"))],
        [judge(16), says("ok")],
        [reading("a1")],
    )
    outcome = await stage.play(iterations=9, tokens=1_000_000)
    fork = successor_of(RunFolder(stage.run.path))
    assert outcome.reason == "user" and fork is not None
    config = fork.config()
    assert config["task"]["policy"] == "mixed" and config[FORKED]["attempt"] == "a1"  # type: ignore[index, call-overload]
    assert config["task"]["start"]["cpp"]["defines"] == {"BLOCK": "16"}  # type: ignore[index, call-overload]
    assert config["settings"]["budgets"]["iterations"] == 7  # type: ignore[index, call-overload]
    with Box(fork.path) as box:
        assert [command.action for command in box.new()] == [acts.Hint(text="rows are short")]


async def test_a_question_is_answered_by_the_analysts_model_or_from_the_facts(stage: Stage) -> None:
    stage.script(
        [giving(stage, proposal("a"), acts.Ask(question="Why was a0 kept?"))],
        [judge(16), says("ok")],
        [says("a0 was the first.", dollars=0), reading("a1")],
    )
    await stage.play()
    (answer,) = told(stage, "answered")
    assert (answer["answer"], answer["by"]) == ("a0 was the first.", "scripted:analyst")
    assert "Why was a0 kept?" in asked(stage, "analyst", 0) and stage.models["analyst"].offered[0] == []


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("how does it stand?", "3 attempts"),
        ("Tell me of a1", "a1 (kept"),
        ("what failed?", "0 of 3 attempts failed"),
        ("what bounds the kernel?", "is bound by memory"),
        ("which changes helped?", "attempts were kept"),
        ("which ideas were tried?", "2 tried"),
    ],
)
async def test_facts_answer_where_the_analyst_is_built_in(stage: Stage, question: str, part: str) -> None:
    give(stage.run.path, acts.Ask(question="early"))
    await stage.play(model="autotune", iterations=2)
    from agents.steering_ask import answer_from_facts

    assert told(stage, "answered")[0]["by"] == "facts"
    assert part in answer_from_facts(stage.run, question)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (acts.Approve(), "no plan waits"),
        (acts.Pin(attempt="a77"), "no attempt a77"),
        (acts.Withdraw(text="never said"), "no hint"),
        (acts.UseModel(role="coder", models=("nobody:there",)), "nobody"),
        (acts.SetBudget(limits={"iterations": 0}), "iterations"),
        (acts.SetBudget(limits={"patience_of_job": 3}), "no limit patience_of_job"),
        (acts.SetPolicy(policy="strict"), "strict already"),
        (acts.EditKernel(files={"other.cpp": "x"}), "no kernel.cpp"),
    ],
)
async def test_what_can_not_be_done_is_refused_with_a_reason(stage: Stage, action: Action, words: str) -> None:
    stage.script([giving(stage, proposal("a"), action)], [judge(16), says("ok")], [reading("a1")])
    outcome = await stage.play()
    (refused,) = told(stage, "steer_refused")
    assert words in refused["message"] and not told(stage) and outcome.iterations == 1


@pytest.mark.parametrize("terminal", [False, True])
async def test_who_watches_in_a_terminal_or_a_log_reads_what_a_person_did(stage: Stage, terminal: bool) -> None:
    given = [acts.Hint(text="rows [b]are[/b]\nshort"), acts.Approve(), acts.Ask(question="how does it stand?")]
    stage.script([giving(stage, proposal("a"), *given)], [judge(16), says("ok")], [says("Well."), reading("a1")])
    await stage.play()
    out = io.StringIO()
    progress = progress_for(Console(file=out, force_terminal=terminal, width=200, color_system=None), None)
    for event in stage.events:
        progress.show(event)
    told = [row for row in out.getvalue().splitlines() if row.startswith("you")]
    assert len(told) == 3 and "hint: rows [b]are[/b] short" in told[0] and "no plan waits" in told[1]


# --- the box ----------------------------------------------------------------------------------------------------------


def test_only_its_owner_can_have_written_a_command(stage: Stage) -> None:
    give(stage.run.path, acts.Pause())
    path = stage.run.path / BOX
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o666)
    with Box(stage.run.path) as box:
        assert box.new() == [] and box.objection == f"others may write into {BOX}"
        path.chmod(0o600)
        assert [command.action for command in box.new()] == [acts.Pause()]
    path.unlink()
    (stage.run.path / "elsewhere").write_text("{}\n")
    path.symlink_to("elsewhere")
    with Box(stage.run.path) as box:
        assert box.new() == [] and box.objection == f"{BOX} is no plain file"
    with pytest.raises(RunFolderError):
        give(stage.run.path, acts.Pause())


def test_torn_and_foreign_lines_are_passed_over(stage: Stage) -> None:
    path = stage.run.path / BOX
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, b'{"id": "x"}\n[1]\n' + b"[" * 100_000 + b'\n{"id": "0123456789ab", "at": 1.0, "act')
    os.close(descriptor)
    command = give(stage.run.path, acts.Pause())
    with Box(stage.run.path) as box:
        assert box.new() == [command] and box.new() == []
    with Box(stage.run.path, {command.id}) as box:
        assert box.new() == []


def test_every_action_has_its_event_and_its_deed() -> None:
    from typing import get_args

    from agents.steer_events import ActionName
    from agents.steering_deeds import _DEEDS

    assert set(get_args(ActionName)) == set(ACTIONS)
    assert {kind.__name__ for kind in _DEEDS} | {"EditKernel", "Ask"} == {kind.__name__ for kind in ACTIONS.values()}


# --- kills ------------------------------------------------------------------------------------------------------------


def test_what_was_given_to_a_killed_run_is_heeded_by_the_next_process(tmp_path: Path) -> None:
    """Killed right after each action was given, and right after it was told: nothing is lost or done twice."""
    given: list[Action | acts.Exported] = [
        acts.Hint(text="rows are short"),
        acts.Pin(attempt="a0"),
        acts.Forbid(idea="BLOCK=256"),
        acts.SetBudget(limits={"iterations": 3}),
        edited("wider"),
        acts.Ask(question="how does it stand?"),
        acts.Exported(attempt="a0", form="sources", folder="/out", status="accepted", said="accepted again"),
        acts.Approval(on=False),
    ]
    run = RunFolder.create(tmp_path, "stub", {})
    for action in given:
        give(run.path, action)
        for when in ("given", "told"):
            assert run_apart(partial(steered_run.main, str(run.path), when)) == -signal.SIGKILL, (action, when)
    assert run_apart(partial(steered_run.main, str(run.path), "never")) == 0
    run = RunFolder(run.path)
    told = [line for line in run.events() if line["event"] in ("steered", "answered", "steer_refused", "exported")]
    names = {"answered": "ask", "exported": "exported"}
    assert [line.get("action") or names[str(line["event"])] for line in told] == [action.action for action in given]
    assert run.standing_hints() == ["rows are short"] and Wishes.of(run.events()).pinned == "a0"
    assert [a.person for a in run.attempts() if a.person] == ["wider"]
    assert sum(line["event"] == "attempt_judged" for line in run.events()) == len(run.attempts())


def test_no_plan_waits_once_none_has_to_or_its_coder_is_at_work() -> None:
    waits = {"event": "plan_waits", "iteration": 3, "hypotheses": []}
    for after in (
        {"event": "steered", "id": "x", "action": "approval", "iteration": 4, "about": {"on": False}},
        {"event": "steered", "id": "x", "action": "accept", "iteration": 4, "about": {}},
        {"event": "steered", "id": "x", "action": "policy", "iteration": 4, "about": {"policy": "mixed"}},
        {"event": "steered", "id": "x", "action": "approve", "iteration": 3, "about": {"decided": 3}},
        {"event": "turn_started", "role": "coder", "iteration": 3, "turn": "0003-coder-0", "model": "a:b"},
        {"event": "tool_called", "role": "coder", "tool": "run"},
        {"event": "iteration_ended", "iteration": 3},
        {"event": "run_ended", "reason": "user"},
    ):
        assert Wishes.of([waits]).waiting == 3 and Wishes.of([waits, after]).waiting is None
    for beside in (
        {"event": "steered", "id": "x", "action": "approval", "iteration": 3, "about": {"on": True}},
        {"event": "turn_started", "role": "analyst", "iteration": 3, "turn": "question", "model": "a:b"},
        {"event": "run_resumed"},
    ):
        assert Wishes.of([waits, beside]).waiting == 3


async def test_a_word_on_a_plan_is_refused_once_plans_wait_no_longer(stage: Stage) -> None:
    def hear(event: Any) -> None:
        if event.event == "plan_waits":
            give(stage.run.path, acts.Approval(on=False))
            give(stage.run.path, acts.Approve())

    stage.events = Heard(hear)
    stage.script([proposal("a")], [judge(16), says("ok")], [reading("a1")])
    await stage.play(settings={"approve": True})
    assert [f["action"] for f in told(stage)] == ["approval"]
    assert [f["message"] for f in told(stage, "steer_refused")] == ["no plan waits for a word"]
