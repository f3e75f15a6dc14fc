"""Traces: what a real collector gets of a run, and that no collector, however unwell, hurts one."""

from __future__ import annotations

import logging
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import killed_run
import pytest
from otlp_collector import Collector, Got, Mood
from pydantic import JsonValue
from scripted_model import calls, says
from scripted_run import Stage, judge, proposal, reading, set_up
from stub_executor import TASK, StubExecutor

from agents import telemetry
from agents.events import Event, EventKind
from agents.models.base import ModelError
from agents.spans import model_attributes
from agents.telemetry import Telemetry, endpoint_of
from app.configuration import Asked, configure
from app.optimize import carry_out
from app.options import with_address
from app.tracing import traced
from memory.runs import RunFolder
from tools.errors import WarpsmithError

SECRET = "the words that a model said"
RUN = {"run": "r", "task": "t"}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


class Heard(list[Event]):
    """Events, told on as they come."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, event: Event) -> None:
        super().append(event)
        self._tell(event)


async def play(stage: Stage, url: str, warn: Callable[[str], None], **more: Any) -> None:
    with traced(url, {}, stage.run.id, lambda _: None, warn) as on_event:
        stage.events = Heard(on_event)
        await stage.play(**more)


def well(text: str) -> None:
    raise AssertionError(text)


def by_name(spans: list[Got], name: str) -> list[Got]:
    return [span for span in spans if span.name == name]


def event(kind: EventKind, turn: str | None = None, **fields: JsonValue) -> Event:
    place: dict[str, JsonValue] = {} if turn is None else {"turn": turn}
    return Event(event=kind, fields=fields, bound=RUN | place)


# --- what a collector gets --------------------------------------------------------------------------------------------


async def test_a_run_is_one_tree_of_spans_without_a_word_of_anybody(stage: Stage) -> None:
    def gone(_: object) -> Any:
        raise ModelError("quota", SECRET)

    stage.script(
        [proposal(f"{SECRET} 1", f"{SECRET} 2")],
        [
            calls(
                "run", {"mode": "full", "candidates": [{"defines": {"BLOCK": 64}}]}, input_tokens=70, output_tokens=5
            ),
            calls("show", {"attempt": SECRET}),
            *([judge(128)] * 2),
            *([says(SECRET)] * 2),
        ],
        [gone],
    )
    stage.add("spare", [reading("a1")])
    with Collector() as collector:
        await play(stage, collector.url, well, parallel=2, fallback=["scripted:spare"])
    spans = collector.spans
    assert len({span.trace for span in spans}) == 1 and len({span.id for span in spans}) == len(spans)
    assert SECRET.encode() not in collector.sent and b"compute kernel" not in collector.sent
    named = {span.id: span for span in spans}
    [root] = [span for span in spans if not span.parent]
    assert root.name == "invoke_workflow warpsmith" and spans[-1] is root
    levels = {
        "open task": {"invoke_workflow warpsmith"},
        "iteration": {"invoke_workflow warpsmith"},
        "invoke_agent planner": {"iteration"},
        "invoke_agent coder": {"iteration"},
        "invoke_agent analyst": {"iteration"},
        "chat planner": {"invoke_agent planner"},
        "chat coder": {"invoke_agent coder"},
        "chat analyst": {"invoke_agent analyst"},
        "chat spare": {"invoke_agent analyst"},
        "execute_tool propose": {"invoke_agent planner"},
        "execute_tool run": {"invoke_agent coder"},
        "execute_tool show": {"invoke_agent coder"},
        "execute_tool diagnose": {"invoke_agent analyst"},
        "evaluate": {"invoke_workflow warpsmith", "invoke_agent coder"},
    }
    found: dict[str, set[str]] = {}
    for span in spans:
        assert span.begin <= span.end
        assert span.attributes["warpsmith.run"] == stage.run.id and span.attributes["warpsmith.task"] == "stub"
        assert span.resource["service.name"] == "warpsmith"
        if span is not root:
            parent = named[span.parent]
            found.setdefault(span.name, set()).add(parent.name)
            assert parent.begin <= span.begin and span.end <= parent.end
    assert found == levels
    assert len(by_name(spans, "invoke_agent coder")) == 2
    turns = {span.id: span.attributes["warpsmith.turn"] for span in spans if span.name == "invoke_agent coder"}
    for span in spans:
        if span.parent in turns and "gen_ai.conversation.id" in span.attributes:
            assert span.attributes["gen_ai.conversation.id"] == f"{stage.run.id}/{turns[span.parent]}"


async def test_spans_have_the_conventions_attributes(stage: Stage) -> None:
    stage.script(
        [proposal("x")],
        [calls("show", {"attempt": "a9"}), judge(64), says("Done.", input_tokens=70, output_tokens=5)],
        [reading("a1")],
    )
    with Collector() as collector:
        await play(stage, collector.url, well)
    spans = collector.spans
    [root] = by_name(spans, "invoke_workflow warpsmith")
    assert root.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert root.attributes["gen_ai.agent.name"] == "warpsmith" and root.attributes["warpsmith.best"] == "a1"
    assert root.attributes["warpsmith.stop_reason"] == "iterations" and not root.failed
    [coder] = by_name(spans, "invoke_agent coder")
    assert (coder.attributes["gen_ai.operation.name"], coder.attributes["gen_ai.agent.name"]) == (
        "invoke_agent",
        "coder",
    )
    last = by_name(spans, "chat coder")[-1].attributes
    assert last["gen_ai.operation.name"] == "chat" and last["gen_ai.provider.name"] == "scripted"
    assert last["gen_ai.request.model"] == "coder" and last["gen_ai.response.finish_reasons"] == ["stop"]
    assert (last["gen_ai.usage.input_tokens"], last["gen_ai.usage.output_tokens"]) == (70, 5)
    [refused] = by_name(spans, "execute_tool show")
    assert refused.failed and refused.attributes["error.type"] == "refused"
    assert refused.attributes["gen_ai.tool.name"] == "show" and refused.attributes["gen_ai.tool.type"] == "function"
    judged = by_name(spans, "evaluate")
    assert [span.attributes["gen_ai.evaluation.score.label"] for span in judged] == ["kept", "kept"]
    assert [span.attributes["gen_ai.evaluation.score.value"] for span in judged] == pytest.approx([9.0, 65.0])
    assert {span.attributes["gen_ai.evaluation.name"] for span in judged} == {"speedup"}


def test_a_call_is_one_span_with_its_retries_and_its_whole_cost() -> None:
    clock = [10**18]
    with Collector() as collector:
        sender = Telemetry("r", f"{collector.url}/v1/traces", well)
        sender._spans._now = lambda: clock[0]

        def hear(kind: EventKind, after: float = 0.0, **fields: JsonValue) -> None:
            clock[0] += int(after * 1e9)
            sender.hear(event(kind, "0001-coder-0", iteration=1, role="coder", **fields))

        call: dict[str, JsonValue] = {"model": "openai:gpt-9@high", "call": "c", "tries": 1, "seconds": 2.0}
        sender.hear(event("run_resumed", target="cpu", parallel=1))
        hear("model_retried", 2.0, **call, fault="transient", message=SECRET, wait=30.0)
        cost: dict[str, JsonValue] = {"input_tokens": 900, "output_tokens": 80, "cached_tokens": 700, "dollars": 0.25}
        nothing: dict[str, JsonValue] = {"cache_write_tokens": 0, "reasoning_tokens": 60, "estimated": False}
        hear("model_called", 32.0, **call | cost | nothing, stop="tools", reply=SECRET)
        hear("model_failed", 1.0, **call | {"call": "d", "seconds": 1.0}, fault="quota", message=SECRET)
        sender.close()
    [called, failed] = by_name(collector.spans, "chat gpt-9")
    assert called.kind == 3 and round((called.end - called.begin) / 1e9) == 34
    assert called.attributes == {
        "warpsmith.run": "r",
        "warpsmith.task": "t",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-9",
        "gen_ai.request.reasoning.level": "high",
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": "r/0001-coder-0",
        "gen_ai.response.finish_reasons": ["tool_call"],
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 80,
        "gen_ai.usage.cache_read.input_tokens": 700,
        "gen_ai.usage.reasoning.output_tokens": 60,
        "warpsmith.dollars": 0.25,
        "warpsmith.tries": 1,
        "warpsmith.call": "c",
    }
    assert failed.failed and failed.attributes["error.type"] == "quota" and failed.end - failed.begin == 10**9
    assert by_name(collector.spans, "invoke_workflow warpsmith")[0].attributes["warpsmith.resumed"] is True
    assert SECRET.encode() not in collector.sent


async def test_a_resumed_run_goes_on_in_its_trace(stage: Stage) -> None:
    stage.script([proposal("x"), proposal("y")], [judge(64), says("Done."), judge(128), says("Done.")], [])
    stage.add("analyst", [reading("a1"), reading("a2")])
    with Collector() as collector:
        await play(stage, collector.url, well, iterations=1)
        await play(stage, collector.url, well, iterations=2)
    roots = [span for span in collector.spans if not span.parent]
    assert [root.attributes["warpsmith.resumed"] for root in roots] == [False, True]
    assert len({span.trace for span in collector.spans}) == 1
    numbers = [span.attributes["warpsmith.iteration"] for span in by_name(collector.spans, "iteration")]
    assert numbers == [1, 2]


async def test_a_run_that_fails_says_so_in_its_trace(stage: Stage) -> None:
    def breaks(_: object) -> Any:
        raise RuntimeError(SECRET)

    stage.script([breaks], [], [])
    with Collector() as collector, pytest.raises(RuntimeError):
        await play(stage, collector.url, well)
    [root] = [span for span in collector.spans if not span.parent]
    assert root.failed and root.attributes["error.type"] == "RuntimeError" and SECRET.encode() not in collector.sent


@pytest.mark.parametrize(
    ("spec", "provider", "model"),
    [
        ("anthropic:claude-x@20250514", "anthropic", "claude-x@20250514"),
        ("openai-chat:meta/Llama:70b", "openai", "meta/Llama:70b"),
        ("xai:grok-9", "x_ai", "grok-9"),
        ("builtin:autotune", "builtin", "autotune"),
        ("no colon", "unknown", "no colon"),
    ],
)
def test_models_are_named_as_the_conventions_name_them(spec: str, provider: str, model: str) -> None:
    assert model_attributes(spec) == {"gen_ai.provider.name": provider, "gen_ai.request.model": model}


# --- collectors that are unwell ---------------------------------------------------------------------------------------


@contextmanager
def unwell(mood: Mood | None) -> Iterator[str]:
    """The address of a collector in that mood; None: nobody listens there."""
    if mood is not None:
        with Collector(mood) as collector:
            yield collector.url
        return
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://user:pass-word@127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("mood", ["broken", "busy", "refusing", "hanging", "hanging_up", None])
async def test_no_collector_hurts_a_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], mood: Mood | None
) -> None:
    monkeypatch.setattr(telemetry, "LAST_SECONDS", 0.3)
    warnings: list[str] = []
    stage.script([proposal("x")], [judge(64), says("Done.")], [reading("a1")])
    with unwell(mood) as url:
        await play(stage, url, warnings.append)
    assert stage.run.outcome() is not None and stage.events[-1].event == "run_ended"
    assert len(warnings) == 1 and "traces can't be sent to http://" in warnings[0] and "pass-word" not in warnings[0]
    assert capfd.readouterr().err == "" and not (stage.run.path / "log.jsonl").exists()
    library = logging.getLogger("opentelemetry")
    assert library.propagate and not library.handlers


def test_a_collector_that_is_long_unwell_is_complained_of_once() -> None:
    warnings: list[str] = []
    with Collector("broken") as collector:
        sender = Telemetry("r", f"{collector.url}/v1/traces", warnings.append)
        for number in range(4):
            sender.hear(event("tool_called", role="coder", tool=f"t{number}", ok=True, error=None, seconds=0.1))
            sender._provider.force_flush()
        sender.close()
        assert len(collector.requests) >= 4
    assert len(warnings) == 1 and "500" in warnings[0]


# --- asking for traces ------------------------------------------------------------------------------------------------

BASE, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.mark.parametrize(
    ("asked", "environ", "url"),
    [
        (None, {}, None),
        ("", {}, "http://localhost:4318/v1/traces"),
        ("http://c:1", {BASE: "http://d:2"}, "http://c:1/v1/traces"),
        ("https://c/otlp/", {}, "https://c/otlp/v1/traces"),
        ("http://c:1/v1/traces", {}, "http://c:1/v1/traces"),
        (None, {BASE: "http://d:2/"}, "http://d:2/v1/traces"),
        ("", {BASE: "http://d:2", TRACES: "http://e:3/own"}, "http://e:3/own"),
        ("http://c:1", {"OTEL_SDK_DISABLED": "true"}, None),
    ],
)
def test_where_traces_go(asked: str | None, environ: dict[str, str], url: str | None) -> None:
    assert endpoint_of(asked, environ) == url


@pytest.mark.parametrize("address", ["c:4318", "ftp://c", "http://", "http://c:port", "task.py", "http://c:99999"])
def test_what_is_no_address_is_said(address: str) -> None:
    warnings: list[str] = []
    with pytest.raises(WarpsmithError, match="no address"), traced(address, {}, "r", well, well):  # type: ignore[arg-type]
        pass
    with traced(None, {BASE: address}, "r", warnings.append, warnings.append) as on_event:  # type: ignore[arg-type]
        assert len(warnings) == 1 and "no address" in warnings[0]
        on_event(event("stopping", reason="user"))
    assert len(warnings) == 2


def test_without_the_packages_the_command_to_get_them_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("agents.telemetry", "agents.spans"):
        monkeypatch.delitem(sys.modules, name)
    warnings: list[str] = []
    with pytest.raises(WarpsmithError) as caught, traced("", {}, "r", lambda _: None, well):
        pass
    assert "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http" in caught.value.advice
    with traced(None, {BASE: "http://c:1"}, "r", lambda _: None, warnings.append):
        pass
    with traced(None, {}, "r", lambda _: None, well):
        pass
    assert len(warnings) == 1


def test_what_is_no_address_of_a_collector_is_answered_with_the_schemes_that_are() -> None:
    with pytest.raises(WarpsmithError) as caught:
        endpoint_of("ftp://c:1", {})
    assert "http:// or https://" in caught.value.advice


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (["optimize", "t.py", "--otel"], ["optimize", "t.py", "--otel="]),
        (["optimize", "--otel", "t.py"], ["optimize", "--otel=", "t.py"]),
        (["optimize", "--otel", "http://c:1", "t.py"], ["optimize", "--otel", "http://c:1", "t.py"]),
        (["optimize", "--otel", "ftp://c:1", "t.py"], ["optimize", "--otel", "ftp://c:1", "t.py"]),
        (["optimize", "--otel=c:1", "t.py"], ["optimize", "--otel=c:1", "t.py"]),
        (["x", "--", "--otel"], ["x", "--", "--otel"]),
        ([], []),
    ],
)
def test_the_option_may_stand_alone(given: list[str], parsed: list[str]) -> None:
    assert with_address(given) == parsed


def test_a_run_of_the_command_is_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunFolder.create(tmp_path, "stub", {"settings": killed_run.SETTINGS.model_dump(mode="json")})
    configuration = configure(Asked(), {}, tmp_path)
    executor = StubExecutor(killed_run.seconds_of)
    with Collector() as collector:
        code = carry_out(
            TASK, killed_run.SETTINGS, run, executor, configuration=configuration, as_json=False, otel=collector.url
        )
    counts = Counter(span.name.split()[0] for span in collector.spans)
    assert code == 0 and counts["iteration"] == 6 and counts["invoke_workflow"] == 1
    assert counts["evaluate"] == len(run.attempts())
    assert "warning" not in capsys.readouterr().out
