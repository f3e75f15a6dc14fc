"""`--samples`: several kernels for one hypothesis, of which the judge chooses one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scripted_model import calls, says
from scripted_run import Stage, hypothesis, judge, proposal, reading, set_up
from stub_executor import StubExecutor

from agents.limits import StopReason
from agents.models.base import Message, Reply
from agents.samples import fastest
from agents.trajectories import Past, turns
from memory.runs import RunFolder
from tools.errors import InfrastructureError
from tools.records import Kernel, QuickResult, Verdict
from tools.task import TaskSource


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


class Answers:
    """A coder's lines by its hypothesis and its number in it, whoever asks first."""

    def __init__(self, blocks: dict[tuple[str, int], int | None]) -> None:
        self._blocks = blocks

    def __call__(self, messages: Sequence[Message]) -> Reply:
        if any(message.speaker == "tool" for message in messages):
            return says("Done.")
        asked = next(message.text for message in reversed(messages) if message.label == "ask")
        change = asked.partition("Change: ")[2].splitlines()[0]
        number = int(asked.partition("You are coder ")[2].split()[0])
        block = self._blocks[change, number]
        return says("It can't be done.") if block is None else judge(block)


async def play(stage: Stage, blocks: dict[tuple[str, int], int | None], samples: int, **budgets: Any) -> Any:
    """One iteration with a hypothesis for each name in `blocks`. A kernel with larger blocks is faster."""
    changes = list(dict.fromkeys(change for change, _ in blocks))
    judged = [calls("diagnose", {"diagnoses": [_reading(f"a{n + 1}") for n in range(len(changes))]})] * 3
    stage.script([proposal(*changes)], [Answers(blocks)] * 40, judged)
    return await stage.play(parallel=len(changes), settings={"samples": samples, "format_failures": 1}, **budgets)


def _reading(attempt: str) -> Any:
    return json.loads(reading(attempt).tool_calls[0].arguments)["diagnoses"][0]


async def test_the_judge_chooses_the_fastest_sample_and_judges_it_alone(stage: Stage) -> None:
    outcome = await play(stage, {("one", 1): 16, ("one", 2): 128, ("one", 3): 64}, 3)
    attempts = stage.run.attempts()
    assert [a.id for a in attempts] == ["a0", "a1"] and outcome.best == "a1"
    assert attempts[1].kernel["defines"] == {"BLOCK": "128"} and attempts[1].sample == 2
    assert (attempts[1].hypothesis or {}).items() >= hypothesis("one").items()
    assert "sample 2" in attempts[1].note and "sample 2" in attempts[1].entry.note
    (told,) = stage.told("samples_raced")
    assert told["chosen"] == 2 and [s["sample"] for s in told["samples"]] == [1, 2, 3]
    seconds = [s["seconds"] for s in told["samples"]]
    assert min(seconds) == seconds[1] and len({s["kernel"] for s in told["samples"]}) == 3
    assert [f["sample"] for f in stage.told("attempt_judged") if "sample" in f] == [2]
    assert stage.executor.judged.count(attempts[1].kernel_id) == 2, "once in the search, once afresh at the end"


async def test_with_parallel_hypotheses_each_is_chosen_for_and_judged_in_turn(stage: Stage) -> None:
    """The same attempts as one after the other: each race is against the best by then."""
    blocks: dict[tuple[str, int], int | None] = {
        ("one", 1): 16, ("one", 2): 32, ("two", 1): 128, ("two", 2): 64, ("three", 1): 8, ("three", 2): 256,
    }  # fmt: skip
    await play(stage, blocks, 2)
    chosen = [(str((a.hypothesis or {})["change"]), a.sample, a.kernel["defines"]) for a in stage.run.attempts()[1:]]
    assert chosen == [
        ("one", 2, {"BLOCK": "32"}), ("two", 1, {"BLOCK": "128"}), ("three", 2, {"BLOCK": "256"}),
    ]  # fmt: skip
    assert [a.outcome for a in stage.run.attempts()] == ["kept"] * 4
    names = sorted(path.stem for path in stage.run.path.glob("transcript/0001-coder-*.jsonl"))
    assert names == [f"0001-coder-{slot}" for slot in range(6)]


async def test_a_sample_without_a_kernel_is_passed_over_and_equal_ones_are_timed_once(stage: Stage) -> None:
    await play(stage, {("one", 1): None, ("one", 2): 64, ("one", 3): 64}, 3)
    (told,) = stage.told("samples_raced")
    assert told["chosen"] == 2 and told["samples"][0]["kernel"] is None
    assert [s["seconds"] for s in told["samples"]] == [None] * 3, "one kernel needs no race"
    assert [a.sample for a in stage.run.attempts()] == [None, 2]


async def test_nothing_is_judged_where_no_coder_left_a_kernel(stage: Stage) -> None:
    outcome = await play(stage, {("one", 1): None, ("one", 2): None}, 2)
    assert stage.told("samples_raced")[0]["chosen"] is None and outcome.iterations == 1
    assert len(stage.run.attempts()) == 1


async def test_an_idea_whose_samples_are_all_wrong_has_its_line(stage: Stage) -> None:
    good = stage.executor.seconds_of
    stage.executor.seconds_of = stage.executor.first_seconds_of = lambda kernel: (
        None if kernel.defines.get("BLOCK") in ("32", "64") else good(kernel)
    )
    await play(stage, {("one", 1): 32, ("one", 2): 64}, 2)
    told = stage.told("samples_raced")[0]
    assert {s["reason"] for s in told["samples"]} == {"wrong_result"} and told["chosen"] == 1
    assert [(a.outcome, a.sample) for a in stage.run.attempts()[1:]] == [("rejected", 1)]


async def test_what_was_handed_in_is_the_sample_whatever_was_looked_at_later(stage: Stage) -> None:
    quick = calls("run", {"mode": "quick", "candidates": [{"defines": {"BLOCK": 8}}]})
    other = [judge(16), says("Done.")]
    stage.script([proposal("one")], [], [reading("a1")])
    mine = [judge(64), quick, says("Done.")]

    def by_number(messages: Sequence[Message]) -> Reply:
        first = "You are coder 1 " in next(m.text for m in reversed(messages) if m.label == "ask")
        return (mine if first else other).pop(0)

    stage.add("coder", [by_number] * 9)
    await stage.play(settings={"samples": 2})
    assert stage.run.attempt("a1").kernel["defines"] == {"BLOCK": "64"}


async def test_a_budget_that_ends_amid_the_samples_ends_the_run_cleanly(stage: Stage) -> None:
    """Each call takes 100 tokens: two of the three coders get none, and what the first wrote is judged."""

    def paid(answers: Answers) -> Any:
        def line(messages: Sequence[Message]) -> Reply:
            reply = answers(messages)
            return reply.model_copy(update={"usage": reply.usage.model_copy(update={"input_tokens": 100})})

        return line

    coder = paid(Answers({("one", n): 64 for n in (1, 2, 3)}))
    stage.script([proposal("one")], [coder] * 9, [reading("a1")])
    outcome = await stage.play(settings={"samples": 3}, iterations=9, tokens=100)
    reason: StopReason = "tokens"
    assert outcome.reason == reason and 100 <= outcome.input_tokens < 200
    assert [a.sample for a in stage.run.attempts()[1:]] == [stage.told("samples_raced")[0]["chosen"]]


class Breaks(StubExecutor):
    """A judge that is gone after so many evaluations; races are counted."""

    def __init__(self, inner: StubExecutor, after: int | None) -> None:
        super().__init__(inner.seconds_of)
        self.after, self.raced = after, 0

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        self.raced += 1
        return await super().quick(task, kernels, incumbent)

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        if self.after is not None and len(self.judged) >= self.after:
            raise InfrastructureError("the judge is gone")
        return await super().evaluate(task, kernel, incumbent, final=final)


async def test_a_run_cut_between_race_and_verdict_races_no_second_time(stage: Stage) -> None:
    stage.executor = executor = Breaks(stage.executor, after=1)  # the start is judged, the chosen sample is not
    blocks: dict[tuple[str, int], int | None] = {("one", 1): 16, ("one", 2): 128}
    with pytest.raises(InfrastructureError):
        await play(stage, blocks, 2)
    (stage.run.path / "state.sqlite").unlink()
    executor.after = None
    stage.run = RunFolder(stage.run.path)
    asked = len(stage.models["coder"].asked)
    outcome = await play(stage, blocks, 2)
    assert executor.raced == 1 and outcome.best == "a1" and stage.run.attempt("a1").sample == 2
    assert asked == 4 and not stage.models["coder"].asked, "nobody is asked again"


@pytest.mark.parametrize("parallel", [1, 3])
async def test_autotune_suggests_another_point_for_each_sample(stage: Stage, parallel: int) -> None:
    outcome = await stage.play("autotune", parallel=parallel, iterations=4, settings={"samples": 3})
    for told in stage.told("samples_raced"):
        assert len({sample["kernel"] for sample in told["samples"]}) == 3
    attempts = stage.run.attempts()
    assert len({a.kernel_id for a in attempts}) == len(attempts) and outcome.best != "a0"
    assert len(stage.told("samples_raced")) == 4 * parallel


async def test_an_attempt_is_owned_by_the_coder_that_wrote_the_sample(stage: Stage) -> None:
    await play(stage, {("one", 1): 16, ("one", 2): 32, ("two", 1): 128, ("two", 2): 64}, 2)
    owners = {turn.name: turn.attempts for turn in turns(Past(stage.run)) if turn.role == "coder"}
    assert owners == {"0001-coder-0": (), "0001-coder-1": ("a1",), "0001-coder-2": ("a2",), "0001-coder-3": ()}


def test_of_equal_times_the_first_sample_wins_and_without_any_the_first_kernel() -> None:
    a, b = (Kernel(language="cpp", files={"kernel.cpp": text}) for text in "ab")
    even = {kernel.id: QuickResult(kernel=kernel.id, status="timed", seconds=1.0) for kernel in (a, b)}
    wrong = {kernel.id: QuickResult(kernel=kernel.id, status="rejected", reason="wrong_result") for kernel in (a, b)}
    assert fastest({1: a, 2: b}, even) == 1 and fastest({3: a, 2: b}, wrong) == 2 and fastest({}, {}) is None
