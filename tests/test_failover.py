"""When a model can't, the next goes on with the same history, and the run says so."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from scripted_model import Line, ScriptedModel, calls, says
from scripted_run import Stage, judge, proposal, reading, set_up
from stub_executor import TASK

from agents.control import Control
from agents.drive import optimize
from agents.models.base import Message, ModelError, ModelFault, Reply, Usage
from agents.models.connections import Connection, Connections
from agents.models.failover import REFITS, RESTS, Candidate, Lineup, Rests, Voice, learnt_window
from agents.room import REPLY_SHARE
from agents.settings import Budgets, Models, RunSettings
from tools.errors import WarpsmithError

NO_WAIT = {"outage_seconds": 0.0, "failover_seconds": 0.0}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


def fails(fault: ModelFault, message: str = "no", usage: Usage | None = None) -> Line:
    def fail(_: Sequence[Message]) -> Reply:
        raise ModelError(fault, message, usage=usage)

    return fail


def lineup(*names: str, now: list[float] | None = None, windows: Sequence[int] = ()) -> Lineup:
    clock = now if now is not None else [0.0]
    sizes = [*windows, *[1000] * (len(names) - len(windows))]
    models = [ScriptedModel([], window=w, name=n) for n, w in zip(names, sizes, strict=True)]
    return Lineup([Candidate(model) for model in models], Rests(lambda: clock[0]))


@pytest.mark.parametrize("fault", ["transient", "refusal", "auth", "quota", "bad_request"])
async def test_each_fault_moves_on_to_the_next_model_with_the_same_history(stage: Stage, fault: ModelFault) -> None:
    stage.script([proposal("x")], [judge(16), fails(fault, "this is why")], [reading("a1")])
    second = stage.add("second", [judge(64), says("Done.")])
    stage.models["analyst"]._lines = [calls("diagnose", {"diagnoses": [_diagnosis("a1"), _diagnosis("a2")]})]
    outcome = await stage.play(fallback=["scripted:second"], settings=NO_WAIT)
    assert outcome.best == "a2"
    assert second.heard[0] == stage.models["coder"].heard[1], "the same history"
    (change,) = stage.told("model_changed")
    assert (change["role"], change["before"], change["after"]) == ("coder", "scripted:coder", "scripted:second")
    assert (change["why"], change["message"]) == (fault, "this is why")
    assert [e["model"] for e in stage.told("model_called") if e["role"] == "coder"] == [
        "scripted:coder",
        "scripted:second",
        "scripted:second",
    ]


async def test_a_reply_that_declines_moves_on_too_and_is_paid(stage: Stage) -> None:
    declines = Reply(text="no", stop="refused", usage=Usage(output_tokens=9))
    stage.script([proposal("x")], [declines], [reading("a1")])
    stage.add("second", [judge(64), says("Done.")])
    outcome = await stage.play(fallback=["scripted:second"])
    assert outcome.best == "a1" and outcome.output_tokens == 9
    assert [e["why"] for e in stage.told("model_changed")] == ["refusal"]


async def test_repeated_format_failures_try_other_dialects_and_then_another_model(stage: Stage) -> None:
    stage.script([proposal("x")], [], [reading("a1")])
    stubborn = stage.add("coder", [says("Hm.")] * 6, dialects=("native", "json", "text"))
    second = stage.add("second", [judge(64), says("Done.")])
    await stage.play(fallback=["scripted:second"], settings={"format_failures": 2})
    assert [request.dialect for request in stubborn.asked] == [None, None, "json", "json", "text", "text"]
    assert second.asked[0].dialect is None, "the next model begins with its own"
    (change,) = stage.told("model_changed")
    assert change["why"] == "format" and "2 replies in a row" in change["message"]


async def test_a_model_that_is_cut_off_again_and_again_is_not_asked_in_another_dialect(stage: Stage) -> None:
    stage.script([proposal("x")], [], [reading("a1")])
    short = Reply(text="I thi", stop="length")
    stage.add("coder", [short] * 2, dialects=("native", "json"))
    stage.add("second", [judge(64), says("Done.")])
    await stage.play(fallback=["scripted:second"], settings={"format_failures": 2})
    assert [e["why"] for e in stage.told("model_changed")] == ["format"]


async def test_a_refusal_holds_for_one_turn_and_an_outage_for_a_while(stage: Stage) -> None:
    stage.script(
        [proposal("x"), proposal("y")], [fails("refusal"), judge(64), says("Done.")], [reading("a1"), reading("a2")]
    )
    stage.add("second", [judge(16), says("Done.")])
    await stage.play(fallback=["scripted:second"], iterations=2)
    assert [e["model"] for e in stage.told("model_called") if e["role"] == "coder"] == [
        *["scripted:second"] * 2,
        *["scripted:coder"] * 2,
    ]
    stage.script([proposal("z"), proposal("w")], [fails("transient")], [reading("a3"), reading("a4")])
    stage.add("second", [judge(128), says("Done."), judge(256), says("Done.")])
    await stage.play(fallback=["scripted:second"], iterations=4, settings=NO_WAIT)
    assert len(stage.models["coder"].heard) == 1, "the next turn does not wake it"


async def test_when_all_are_exhausted_the_run_ends_with_each_ones_reason_and_can_go_on(stage: Stage) -> None:
    stage.script([proposal("x")], [judge(16), fails("quota", "the account is empty")], [])
    stage.add("second", [fails("auth", "wrong key")])
    outcome = await stage.play(fallback=["scripted:second"], settings=NO_WAIT)
    assert outcome.reason == "models_unavailable"
    (stopping,) = stage.told("stopping")
    assert "scripted:coder (quota: the account is empty)" in stopping["message"]
    assert "scripted:second (auth: wrong key)" in stopping["message"]
    stage.add("second", [says("Done.")])
    stage.add("analyst", [reading("a1")])
    outcome = await stage.play(fallback=["scripted:second"], settings=NO_WAIT)
    assert (outcome.reason, outcome.best) == ("iterations", "a1")
    assert stage.executor.judged[:2] == [a.kernel_id for a in stage.run.attempts()], "nothing was judged twice"


async def test_a_prompt_that_does_not_fit_is_made_smaller_and_sent_once_more(stage: Stage) -> None:
    too_long = fails("overflow", "prompt is too long: 30000 tokens > 20000 maximum")
    looks = [calls("show", {"attempt": "a0"}, call=f"k{i}") for i in range(12)]
    stage.script([proposal("x")], [*looks, too_long, judge(64), says("Done.")], [reading("a1")])
    await stage.play(settings={"reply_tokens": 1000})
    asked = stage.models["coder"].asked
    sizes = [sum(len(m.text) for m in request.messages) for request in asked]
    assert sizes[13] < sizes[12], "the same question in fewer words"
    assert stage.told("model_changed") == [] and [e["fault"] for e in stage.told("model_failed")] == ["overflow"]
    assert stage.run.best() == "a1"


async def test_what_never_fits_moves_on_and_with_nobody_left_says_so(stage: Stage) -> None:
    too_long = [fails("overflow", "Your input exceeds the context window of this model.")] * (REFITS + 1)
    stage.script([proposal("x")], too_long, [reading("a1")])
    stage.add("second", [judge(64), says("Done.")])
    outcome = await stage.play(fallback=["scripted:second"])
    assert outcome.best == "a1" and [e["why"] for e in stage.told("model_changed")] == ["overflow"]
    stage.script([proposal("y")], too_long, [])
    outcome = await stage.play(iterations=2)
    assert outcome.reason == "models_unavailable"
    assert "window" in stage.told("stopping")[-1]["message"]


async def test_a_summary_that_does_not_come_is_not_waited_for_as_long_as_a_reply(stage: Stage) -> None:
    thinks = [
        calls("show", {"attempt": "a0"}, call=f"k{i}").model_copy(update={"text": f"thought {i} " * 900})
        for i in range(12)
    ]
    stage.script([proposal("x")], [], [reading("a1")])
    coder = stage.add("coder", [*thinks, judge(64), says("Done.")], window=24_000)
    coder.summary = fails("transient", "nothing came in time")
    await stage.play(settings={"reply_tokens": 1000, "outage_seconds": 3600.0, "failover_seconds": 0.0})
    assert {e["tries"] for e in stage.told("model_failed")} == {1}
    assert stage.run.best() == "a1"


@pytest.mark.parametrize("rounds", [1, 3, 5])
async def test_a_full_thread_that_nobody_is_left_to_sum_up_ends_the_run_in_good_order(
    stage: Stage, rounds: int
) -> None:
    thinks = [
        calls("show", {"attempt": "a0"}, call=f"k{i}").model_copy(update={"text": f"thought {i} " * 900})
        for i in range(rounds)
    ]
    declines = Reply(text="I would rather not, since " * 400, stop="refused", usage=Usage())
    stage.script([proposal("x")], [], [])
    stage.add("coder", [*thinks, declines, declines, declines], window=24_000)
    outcome = await stage.play(settings={"reply_tokens": 1000, **NO_WAIT})
    assert outcome.reason == "models_unavailable"


async def test_the_next_model_may_have_a_smaller_window(stage: Stage) -> None:
    """In the middle of a turn that would not fit it."""
    looks = [calls("show", {"attempt": "a0"}, call=f"k{i}") for i in range(30)]
    stage.script([proposal("x")], [*looks, fails("quota")], [reading("a1")])
    small = stage.add("small", [judge(64), says("Done.")], window=16_000)
    await stage.play(fallback=["scripted:small"], settings={"reply_tokens": 1000, "turn_steps": 60})
    assert stage.run.best() == "a1"
    before = sum(len(m.text) for m in stage.models["coder"].heard[-1])
    assert sum(len(m.text) for m in small.heard[0]) < before


async def test_a_model_whose_window_is_far_too_small_is_passed_over(stage: Stage) -> None:
    stage.script([proposal("x")], [], [reading("a1")])
    stage.add("coder", [], window=400)
    stage.add("second", [judge(64), says("Done.")])
    await stage.play(fallback=["scripted:second"])
    assert stage.run.best() == "a1" and stage.models["coder"].heard == []


async def test_when_no_window_is_large_enough_the_run_ends_and_says_what_is_needed(stage: Stage) -> None:
    stage.script([proposal("x")], [], [reading("a1")])
    stage.add("coder", [], window=400)
    outcome = await stage.play()
    assert outcome.reason == "models_unavailable"
    assert "has a window of 400 tokens" in stage.told("stopping")[0]["message"]
    stage.add("coder", [judge(64), says("Done.")])
    assert (await stage.play()).best == "a1"


# --- between two calls -----------------------------------------------------------------------------------------------


async def test_a_person_changes_the_model_between_two_calls_and_back(stage: Stage) -> None:
    def change(_: Sequence[Message]) -> Reply:
        stage.control.use("coder", "scripted:other")
        return judge(16)

    def back(_: Sequence[Message]) -> Reply:
        stage.control.use("coder", "scripted:coder")
        return judge(32)

    stage.script([proposal("x")], [change, says("Done.")], [])
    stage.add("analyst", [calls("diagnose", {"diagnoses": [_diagnosis("a1"), _diagnosis("a2")]})])
    other = stage.add("other", [back])
    await stage.play()
    assert other.heard[0][: len(stage.models["coder"].heard[0])] == stage.models["coder"].heard[0]
    assert [(e["before"], e["after"], e["why"]) for e in stage.told("model_changed")] == [
        ("scripted:coder", "scripted:other", "user"),
        ("scripted:other", "scripted:coder", "user"),
    ]


def test_without_a_run_there_is_nobody_to_change() -> None:
    with pytest.raises(WarpsmithError, match="no run is going on"):
        Control().use("coder", "builtin:autotune")


async def test_an_unknown_model_is_refused_and_nothing_changes(stage: Stage) -> None:
    caught: list[str] = []

    def change(_: Sequence[Message]) -> Reply:
        try:
            stage.control.use("coder", "nonsense")
        except WarpsmithError as error:
            caught.append(str(error))
        return judge(64)

    stage.script([proposal("x")], [change, says("Done.")], [reading("a1")])
    await stage.play()
    assert caught and stage.told("model_changed") == []


# --- lineups and voices by themselves --------------------------------------------------------------------------------


def test_what_rests_comes_back_and_when_all_rest_all_are_tried() -> None:
    now = [0.0]
    models = lineup("a", "b", now=now)
    models.rests.begin(models.candidates[0], "transient")
    assert models.name == "b"
    now[0] = RESTS["transient"]
    assert models.name == "a"
    for candidate in models.candidates:
        models.rests.begin(candidate, "auth")
    assert [c.name for c in models.ready()] == ["a", "b"]


def test_what_rests_does_so_for_all_roles_and_a_dead_server_for_all_its_models() -> None:
    now = [0.0]
    rests = Rests(lambda: now[0])

    def of(*names: str) -> Lineup:
        places = {"large": "http://gpu1/v1", "small": "http://gpu1/v1", "far": "http://far/v1", "local": ""}
        return Lineup([Candidate(ScriptedModel([], name=n), endpoint=places[n]) for n in names], rests)

    planner, coder, analyst = of("large", "small", "far"), of("small", "far"), of("local", "large")
    rests.begin(planner.candidates[0], "transient", "503: overloaded")
    assert [c.name for c in planner.ready()] == ["small", "far"], "the server answered, so its other model is asked"
    assert [c.name for c in analyst.ready()] == ["local"], "what one role found out the other knows"
    rests.begin(coder.candidates[0], "transient", "it can't be reached", unreachable=True)
    assert [c.name for c in planner.ready()] == ["far"] == [c.name for c in coder.ready()]
    assert planner.resting("small") == ("transient", "it can't be reached")
    rests.begin(analyst.candidates[0], "transient", "out of memory", unreachable=True)
    assert len(analyst.ready()) == 2 and analyst.resting("local") is not None, "no address, so it rests alone"
    rests.end(planner.candidates[1])
    assert [c.name for c in planner.ready()] == ["small", "far"], "a person wants it"
    now[0] = RESTS["transient"]
    assert len(planner.ready()) == 3


async def test_a_dead_server_is_found_out_once_by_all_roles(tmp_path: Path, stage: Stage) -> None:
    with socket.socket() as refused:
        refused.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{refused.getsockname()[1]}/v1"
        stage.script([proposal("x"), proposal("y")], [], [reading("a1"), reading("a2")])
        stage.add("second", [judge(64), says("Done."), judge(128), says("Done.")])
        models = Models(
            planner="openai-chat:large",
            coder="openai-chat:small",
            analyst="openai-chat:large@high",
            fallback={
                "planner": ("scripted:planner",),
                "coder": ("scripted:second",),
                "analyst": ("scripted:analyst",),
            },
        )
        connection = Connection(wire="chat", base_url=url, key=SecretStr("k"))
        outcome = await optimize(
            TASK,
            RunSettings(models=models, budgets=Budgets(iterations=2, near_limit=None, patience=None), **NO_WAIT),
            stage.run,
            stage.executor,
            stage.events.append,
            connections=Connections(providers={"openai-chat": connection}),
        )
    assert (outcome.reason, outcome.iterations, outcome.best) == ("iterations", 2, "a2")
    (failed,) = stage.told("model_failed")
    assert failed["fault"] == "transient" and "can't be reached" in failed["message"]
    assert [e["why"] for e in stage.told("model_changed")] == ["transient"], "of the one turn that found it out"


@pytest.mark.parametrize("why", ["refusal", "bad_request", "overflow", "format", "user"])
def test_what_says_something_of_one_request_makes_no_model_rest(why: str) -> None:
    models = lineup("a", "b")
    models.rests.begin(models.candidates[0], why)  # type: ignore[arg-type]
    assert models.name == "a"


def test_a_learnt_window_holds_for_the_run_and_never_grows() -> None:
    models = lineup("a", windows=[10_000])
    Voice(models).refit("a", 6000)
    assert models.window == 6000
    Voice(models).refit("a", 9000)
    assert models.window == 6000


OPENAI = "This model's maximum context length is 8,192 tokens. However, your messages resulted in 9000 tokens."
VLLM = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion)."  # noqa: E501


@pytest.mark.parametrize(
    ("message", "prompt", "reply", "least", "most"),
    [
        (OPENAI, 8000, 1000, 6000, 8192),
        (VLLM, 4000, 1000, 3500, 4096),
        ("prompt is too long: 210000 tokens > 200000 maximum", 100_000, 10_000, 90_000, 105_000),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            190_000,
            20_000,
            150_000,
            200_000,
        ),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4500, 500, 3500, 4096),
        ("request (6000 tokens) exceeds the available context size (4096 tokens)", 3000, 500, 1500, 2500),
        ("Your input exceeds the context window of this model.", 10_000, 1000, 5000, 9000),
        ("", 10_000, 1000, 5000, 9000),
    ],
)
def test_a_window_is_learnt_from_what_the_provider_says(
    message: str, prompt: int, reply: int, least: int, most: int
) -> None:
    assert least <= learnt_window(message, prompt, reply) <= most < prompt + reply


@pytest.mark.parametrize("reply", [1000, 16_000])
@pytest.mark.parametrize(
    ("words", "window"),
    [
        ("maximum context length is {limit} tokens. However, your messages resulted in {sent} tokens", 1_000_000),
        ("prompt exceeds the available context size ({limit} tokens)", 128_000),
        ("it is too long", 64_000),
    ],
)
@given(st.integers(16_000, 64_000), st.floats(1.0, 1.5))
@settings(max_examples=40, deadline=None)
def test_a_few_refusals_teach_a_window_that_nobody_knew(
    reply: int, words: str, window: int, limit: int, undercount: float
) -> None:
    """A prompt as long as it may be, which the provider counts to be longer, and a reply of a quarter at most."""
    for _ in range(REFITS + 1):
        room = min(reply, window // REPLY_SHARE)
        prompt = window - room
        sent = int(prompt * undercount)
        if sent + room <= limit:
            break
        window = learnt_window(words.format(limit=limit, sent=sent), prompt, room)
    assert sent + room <= limit and window > limit / 3


def _diagnosis(attempt: str) -> dict[str, object]:
    said = {"attempt": attempt, "bottleneck": "memory", "evidence": ["90 %"], "summary": "It streams."}
    return said | {"hypothesis_held": True}


def test_a_model_that_a_turn_beside_this_one_put_to_rest_is_left_for_that_reason() -> None:
    both = lineup("a", "b")
    here = Voice(both)
    here.heard("a", "native")
    both.rests.begin(both.candidates[0], "quota", "the account is empty")
    change = here.change_to(here.left()[0])
    assert change is not None and (change.before, change.after) == ("a", "b")
    assert (change.why, change.message) == ("quota", "the account is empty")
