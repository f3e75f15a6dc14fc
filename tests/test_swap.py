"""Whole runs over real HTTP through each of the three wires: moved between providers, broken in every way, killed.

Nothing measures here (tests/stub_executor.py); all that is talked and paid is real.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.control import Control
from agents.events import Event
from agents.models.base import Usage
from agents.models.costs import PAID_EVENTS, ledger
from agents.outcome import Outcome
from agents.settings import RunSettings
from memory.runs import RunFolder
from tests.llm_server import WIRES, Answer, Fault, LlmServer, Recorded, Tokens, Wire, breaks, status
from tests.talking_run import PRICE, SPECS, Brain, Hasty, settings_for, talk

FAULTS: tuple[Fault, ...] = (
    status(429, {"retry-after": "7"}),
    status(429),
    status(529, type="overloaded_error"),
    status(500),
    status(503, {"retry-after": "1"}),
    breaks("html"),
    breaks("truncated"),
    breaks("error_event", type="overloaded_error"),
    breaks("malformed"),
    breaks("wrong_shape"),
    breaks("disconnect"),
    breaks("stall"),
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "stub", {})


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with LlmServer(Brain()) as made:
        yield made


async def play(run: RunFolder, server: LlmServer, settings: RunSettings, **more: Any) -> tuple[Outcome, list[Event]]:
    events: list[Event] = []
    return await talk(run, server.url, settings, events.append, **more), events


def paid(run: RunFolder) -> Tokens:
    """What all calls of the run cost by its own books, those that failed included."""
    lines = [line for line in run.events() if line["event"] in PAID_EVENTS]
    names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
    return Tokens(*(sum(int(str(line.get(name, 0))) for line in lines) for name in names))


def dollars(tokens: Tokens) -> float:
    return PRICE.of(Usage(input_tokens=tokens.input, cached_tokens=tokens.cached, output_tokens=tokens.output))


def in_order(run: RunFolder, iterations: int, parallel: int = 1) -> bool:
    """Whether each hypothesis became one attempt, and each attempt was read."""
    attempts = run.attempts()
    blocks = [str(a.kernel["defines"]["BLOCK"]) for a in attempts[1:]]  # type: ignore[index, call-overload]
    wanted = [str(10 * (i + 1) + slot) for i in range(iterations) for slot in range(parallel)]
    return sorted(blocks) == sorted(wanted) and all(run.diagnosis(a.id) is not None for a in attempts[1:])


@pytest.mark.parametrize("wire", WIRES)
async def test_a_whole_run_goes_through_each_wire_and_its_books_are_the_servers(wire: Wire, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "stub", {})
    with LlmServer(Brain(hypotheses=2)) as server:
        outcome, _ = await play(run, server, settings_for(SPECS[wire], parallel=2))
    assert (outcome.reason, outcome.iterations) == ("iterations", 2) and in_order(run, 2, parallel=2)
    assert {request.wire for request in server.requests} == {wire}
    assert paid(run) == server.total and server.total.input > 0
    rows = ledger(run)
    assert sum(row.calls for row in rows) == len(server.requests) == len(server.reported)
    assert sum(row.input_tokens for row in rows) == outcome.input_tokens == server.total.input
    assert sum(row.cached_tokens for row in rows) == outcome.cached_tokens == server.total.cached
    assert sum(row.reasoning_tokens for row in rows) == outcome.reasoning_tokens == server.total.reasoning
    assert outcome.dollars == pytest.approx(sum(row.dollars or 0.0 for row in rows))
    assert outcome.dollars == pytest.approx(dollars(server.total))
    assert {(row.role, row.iteration) for row in rows} == {
        (role, i) for role in ("planner", "coder", "analyst") for i in (1, 2)
    }
    assert outcome.unpriced_tokens == 0


@pytest.mark.parametrize("wire", WIRES)
async def test_every_fault_at_some_call_loses_no_attempt_and_counts_no_token_twice(
    wire: Wire, run: RunFolder, server: LlmServer
) -> None:
    for fault in FAULTS:
        server.faults.extend([fault, None])
    control = Control()
    control.stopping = hasty = Hasty()
    outcome, events = await play(run, server, settings_for(SPECS[wire], iterations=4), control=control, timeout=1.0)
    assert (outcome.reason, outcome.iterations) == ("iterations", 4) and in_order(run, 4)
    assert not server.faults, "every fault came up"
    retried = [event.fields for event in events if event.event == "model_retried"]
    assert len(retried) == len(FAULTS) == len(hasty.waits) and {r["fault"] for r in retried} == {"transient"}
    assert [r["wait"] for r in retried] == hasty.waits and all(r["tries"] == 1 for r in retried)
    assert 7.0 <= hasty.waits[0] <= 8.0, "Retry-After"
    assert paid(run) == server.total, "also of a stream that broke off, what the provider told of it by then"
    assert outcome.input_tokens == server.total.input == sum(row.input_tokens for row in ledger(run))


async def test_a_run_is_moved_between_the_providers_in_the_middle_of_its_turns(
    run: RunFolder, server: LlmServer
) -> None:
    """After each reply of the coder its next call goes to the next provider."""
    control, events, order = Control(), list[Event](), list(SPECS.values())
    control.stopping = Hasty()

    def move(event: Event) -> None:
        events.append(event)
        if event.event == "model_called" and event.fields["role"] == "coder":
            order.append(order.pop(0))
            control.use("coder", order[0])

    outcome = await talk(run, server.url, settings_for(order[0], iterations=3), move, control)
    assert outcome.iterations == 3 and in_order(run, 3)
    called = [str(e.fields["model"]) for e in events if e.event == "model_called" and e.fields["role"] == "coder"]
    assert called == ["openai:m", "openai-chat:m", "anthropic:m"] * 2
    changes = [(e.fields["before"], e.fields["after"], e.fields["why"]) for e in events if e.event == "model_changed"]
    assert changes == [
        ("openai:m", "openai-chat:m", "user"),
        ("anthropic:m", "openai:m", "user"),
        ("openai-chat:m", "anthropic:m", "user"),
    ]
    assert paid(run) == server.total and {row.model for row in ledger(run)} == set(SPECS.values())


async def test_an_outage_of_one_provider_moves_the_run_to_the_next(run: RunFolder) -> None:
    brain = Brain()

    def react(request: Recorded) -> Answer | Fault:
        return status(503) if request.wire == "messages" else brain(request)

    with LlmServer(react) as server:
        settings = settings_for("anthropic:m", fallback=["openai:m"], failover_seconds=0.0)
        outcome, events = await play(run, server, settings)
        assert outcome.iterations == 2 and in_order(run, 2) and paid(run) == server.total
    changes = [e.fields for e in events if e.event == "model_changed"]
    assert {(c["before"], c["after"], c["why"]) for c in changes} == {("anthropic:m", "openai:m", "transient")}
    asked = [request.wire for request in server.requests]
    assert asked.count("messages") == 1, "one role learns it for all, and lets the model rest"


@pytest.mark.parametrize(("kind", "fatal"), [("model_called", 3), ("model_retried", 2)])
async def test_after_a_kill_each_call_is_paid_and_counted_once(
    run: RunFolder, server: LlmServer, kind: str, fatal: int
) -> None:
    """Killed when a call stands in the journal but not in the checkpoint; it goes on with another provider."""
    if kind == "model_retried":
        server.faults.extend([status(500), None] * fatal)
    root = Path(__file__).parent.parent
    command = [sys.executable, "-P", "-m", "tests.talking_run", str(run.path), server.url, "openai:m", kind, str(fatal)]
    environment = os.environ | {"PYTHONPATH": f"{root}:{root / 'tests'}"}
    child = subprocess.run(command, env=environment, cwd=root, check=False, capture_output=True, timeout=120)
    assert child.returncode == -9, child.stderr
    before = len(server.requests)
    assert paid(run) == server.total
    resumed = RunFolder(run.path)
    outcome, events = await play(resumed, server, settings_for("anthropic:m"))
    assert outcome.iterations == 2 and in_order(resumed, 2)
    assert paid(resumed) == server.total, "a call that was paid is not made again, and none is counted twice"
    assert outcome.input_tokens == server.total.input and outcome.dollars == pytest.approx(dollars(server.total))
    answered = sum(row.calls for row in ledger(resumed))
    assert answered == len(server.reported) == 8 and {r.wire for r in server.requests[before:]} == {"messages"}
    assert len({str(e["call"]) for e in resumed.events() if e["event"] == "model_called"}) == answered
    assert events[0].event == "run_resumed"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_money_limit_holds_with_coders_in_parallel(wire: Wire, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "stub", {})
    with LlmServer(Brain(hypotheses=4)) as server:
        limit = 0.01
        outcome, _ = await play(
            run, server, settings_for(SPECS[wire], iterations=50, parallel=4, budgets={"dollars": limit})
        )
    dearest = max(dollars(tokens) for tokens in server.reported)
    assert outcome.reason == "money" and limit <= outcome.dollars < limit + dearest
    assert outcome.dollars == pytest.approx(dollars(server.total)) and outcome.best is not None


async def test_a_stop_while_a_provider_is_down_ends_at_once_as_the_user_asked(run: RunFolder) -> None:
    control = Control()
    with LlmServer(lambda _: status(503, {"retry-after": "3600"})) as server:

        def stop(event: Event) -> None:
            if event.event == "model_retried":
                control.stop(grace=3600.0)

        outcome = await talk(run, server.url, settings_for("openai:m"), stop, control)
    assert (outcome.reason, outcome.best, len(server.requests)) == ("user", "a0", 1)


async def test_an_unknown_price_stops_nothing(run: RunFolder, server: LlmServer) -> None:
    settings = settings_for("openai:other", budgets={"dollars": 1e-9})
    outcome, _ = await play(run, server, settings)
    assert (outcome.reason, outcome.dollars) == ("iterations", 0.0)
    assert outcome.unpriced_tokens == server.total.input + server.total.output
    assert all(row.dollars is None for row in ledger(run))
