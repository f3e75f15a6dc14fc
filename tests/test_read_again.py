"""A person chooses a model whose server nobody knew when the run began: settings files are read again, an address may
stand behind the model, and a refusal says what works."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import steering_actions as acts
from agents.batch_books import Books
from agents.batch_job import _Job
from agents.batch_lines import Answer as Granted
from agents.batch_lines import Ask, Report, Turn
from agents.drive import optimize
from agents.events import Event
from agents.secrets import Scrubber
from agents.settings import Budgets, RunSettings
from agents.steering_box import give
from app.batch_job import work_of
from app.configuration import Asked, Configuration, configure
from app.optimize import asked_for
from app.read_again import read_again
from app.resume import Begun
from app.resume import _configuration as resumed
from app.steer_words import action_of
from memory.runs import RunFolder
from tests.killed_run import seconds_of
from tests.llm_heard import heard
from tests.llm_server import Answer, Call, LlmServer, Recorded
from tests.stub_batch import make_batch, plan
from tests.stub_executor import TASK, StubExecutor

SETTINGS = RunSettings(budgets=Budgets(iterations=2, near_limit=None, patience=None))
KEY = "qx-0123456789-of-a-file"


@pytest.fixture
def server() -> Iterator[LlmServer]:
    def code(request: Recorded) -> Answer:
        if any(each.kind == "result" for each in heard(request.wire, request.body)):
            return Answer("Done.")
        return Answer(calls=(Call("run", {"mode": "full", "candidates": [{"defines": {"BLOCK": 16}}]}),))

    with LlmServer(code) as made:
        yield made


@pytest.fixture
def found(tmp_path: Path) -> Configuration:
    """What a run begins with in an empty folder."""
    (tmp_path / "home").mkdir()
    return configure(Asked(), {"HOME": str(tmp_path / "home")}, tmp_path / "home")


async def steered(folder: Path, found: Configuration, *words: str) -> tuple[RunFolder, list[Event]]:
    """A run of what is built in, to which these actions are given once it began."""
    config = {"task": TASK.model_dump(mode="json"), **asked_for(SETTINGS, found, "local", None, ("warpsmith",))}
    run, events = RunFolder.create(folder, "stub", config), list[Event]()
    for each in words:
        give(run.path, action_of(each.split()))
    await optimize(
        TASK,
        SETTINGS,
        run,
        StubExecutor(seconds_of),
        events.append,
        connections=found.connections,
        read_again=functools.partial(read_again, found),
    )
    return run, events


def refused(events: list[Event]) -> list[str]:
    return [f"{e.fields['message']}. {e.fields['advice']}" for e in events if e.event == "steer_refused"]


def coders(events: list[Event]) -> set[Any]:
    return {e.fields["model"] for e in events if e.event == "model_called" and e.fields["role"] == "coder"}


async def test_a_server_that_was_set_up_meanwhile_can_be_chosen_and_its_key_is_kept_out(
    tmp_path: Path, found: Configuration, server: LlmServer
) -> None:
    home = tmp_path / "home"
    (home / "key").write_text(KEY)
    (home / "warpsmith.toml").write_text(
        f'[endpoints.local]\nbase_url = "{server.url}/v1"\nkey_file = "key"\n[models]\ndefault = "local:other"\n'
    )
    run, events = await steered(tmp_path, found, f"hint {KEY} is mine", "model coder local:m", f"hint {KEY} is mine")
    assert refused(events) == [] and coders(events) == {"local:m"}
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    hints = [e.fields["about"]["text"] for e in events if e.event == "steered" and e.fields["action"] == "hint"]
    assert hints[-1] == "[secret] is mine", "a key that was read meanwhile is one that is known"
    assert run.config()["endpoints"]["local"]["base_url"] == f"{server.url}/v1"  # type: ignore[index, call-overload]


async def test_an_address_may_stand_behind_the_model_and_a_resumed_run_knows_it(
    tmp_path: Path, found: Configuration, server: LlmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, events = await steered(
        tmp_path, found, f"model coder openai-chat:m {server.url}/v1", "model coder openai-chat:m"
    )
    assert refused(events) == [] and coders(events) == {"openai-chat:m"} and server.requests
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    again = resumed(Asked(), Begun.of(RunFolder(run.path)))
    assert again.connections.of("openai-chat").base_url == f"{server.url}/v1"
    assert again.models.coder == "openai-chat:m"


async def test_a_refusal_says_what_works_while_the_run_goes_on(tmp_path: Path, found: Configuration) -> None:
    words = [
        "model coder openai-chat:m",
        "model coder local:m",
        "model coder openai:m",
        "model coder openai-chat:m ftp://somewhere",
        "model coder openai-chat:m http://me:secret@127.0.0.1/v1",
    ]
    run, events = await steered(tmp_path, found, *words)
    address, provider, key, scheme, password = refused(events)
    assert "model coder openai-chat:m http://127.0.0.1:8000/v1" in address and "--base-url" not in address
    assert "[endpoints.local] in warpsmith.toml. It is read again" in provider
    assert "no key for `openai:`" in key and "key_file in warpsmith.toml" in key
    assert "no address of a server" in scheme and "no password" in password
    assert coders(events) == {"builtin:autotune"} and run.config()["endpoints"] == {}


async def test_a_file_that_can_not_be_used_refuses_a_model_behind_a_server_and_no_other(
    tmp_path: Path, found: Configuration
) -> None:
    (tmp_path / "home" / "warpsmith.toml").write_text("[endpoints")
    _, events = await steered(tmp_path, found, "model coder local:m", "model coder builtin:autotune")
    (said,) = refused(events)
    assert "is not TOML" in said and [e.fields["action"] for e in events if e.event == "steered"] == ["model"]


async def test_a_run_of_which_nobody_reads_settings_again_takes_no_address(tmp_path: Path) -> None:
    run, events = RunFolder.create(tmp_path, "stub", {}), list[Event]()
    give(run.path, acts.UseModel(role="coder", models=("openai-chat:m",), address="http://127.0.0.1:9/v1"))
    await optimize(TASK, SETTINGS, run, StubExecutor(seconds_of), events.append)
    assert "takes no address" in refused(events)[0] and coders(events) == {"builtin:autotune"}


async def test_a_task_of_a_batch_reads_settings_again_too(
    tmp_path: Path, server: LlmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task's process is put together as the batch starts it, and has a turn."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    batch = make_batch(tmp_path, {"one": {}})
    settings = SETTINGS.model_copy(update={"judge_waits": ()})
    with batch.journal() as journal:
        Books(batch, plan(settings=settings), journal, lambda _: None).begin()
    run = batch.begin_run(batch.batch().task("one"), {"task": TASK.model_dump(mode="json")})
    work = work_of(batch, "one")
    (tmp_path / "warpsmith.toml").write_text(f'[endpoints.local]\nbase_url = "{server.url}/v1"\n')
    events = list[Event]()
    work.on_event = events.append
    give(run.path, action_of(["model", "coder", "local:m"]))
    work.executor = StubExecutor(seconds_of)

    def tell(report: Report) -> None:
        if isinstance(report, Ask):
            job.heed(Granted(number=report.number, refused=None))

    job = _Job(work, tell)
    await job.turn(Turn(iterations=2, left=None, device_seconds=0.0))
    assert refused(events) == [] and coders(events) == {"local:m"} and server.requests


def test_an_address_is_a_word_of_its_own() -> None:
    action = action_of(["model", "coder", "openai-chat:m,builtin:autotune", "http://127.0.0.1:8000/v1"])
    models = ("openai-chat:m", "builtin:autotune")
    assert action == acts.UseModel(role="coder", models=models, address="http://127.0.0.1:8000/v1")


def test_a_scrubber_learns() -> None:
    scrubber = Scrubber(["first-key"])
    known = scrubber.known
    scrubber._add(["second-key"])
    assert known("first-key second-key") == "[secret] [secret]"
