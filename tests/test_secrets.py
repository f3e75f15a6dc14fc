"""Keys are planted wherever one could come from, and looked for in everything that a run leaves behind."""

from __future__ import annotations

import base64
import json
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from agents.control import Control
from agents.drive import optimize
from agents.events import Event, Journal
from agents.models import registry
from agents.models.base import Message, ModelError, Reply
from agents.models.connections import BUILT_IN, Connections
from agents.secrets import MARK, SHORTEST, Scrubber
from agents.settings import Budgets, Models, RunSettings
from memory.runs import Attempt, RunFolder
from tests.killed_run import seconds_of
from tests.llm_server import Answer, Call, Fault, LlmServer, Recorded, status
from tests.scripted_model import ScriptedModel, calls
from tests.stub_executor import KERNEL, TASK, StubExecutor
from tests.talking_run import CATALOGUE, Brain, Hasty, connections_to
from tools.environment import without_model_keys, without_secrets
from tools.executor import CommandExecutor
from tools.process import run_command

KEY = "planted/Key+0123456789"
"""Of no provider's shape, and with signs that some escape."""
SHAPED = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUv"

# --- what is taken out ------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    before=st.text(max_size=30),
    key=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=SHORTEST, max_size=60),
    after=st.text(max_size=30),
)
def test_a_known_key_is_taken_out_wherever_it_stands(before: str, key: str, after: str) -> None:
    scrubber = Scrubber([key])
    for text in (before + key + after, f'{{"a": {json.dumps(before + key)}}}', f"Bearer {key}", f"http://x:{key}@h/"):
        assert key not in scrubber.known(text).replace(MARK, "\0") or json.dumps(key)[1:-1] != key
        assert key not in scrubber.text(text).replace(MARK, "\0") or json.dumps(key)[1:-1] != key


@given(text=st.text(max_size=200))
def test_taking_out_twice_changes_nothing_more(text: str) -> None:
    scrubber = Scrubber([KEY])
    assert scrubber.text(scrubber.text(text)) == scrubber.text(text)
    assert Scrubber().known(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"invalid key {SHAPED}",
        "key sk-proj-0123456789abcdefghij was refused",
        "{'Authorization': 'Bearer 0123456789abcdef'}",
        'headers: [("x-api-key", "0123456789abcdef")]',
        "authorization=Basic dXNlcjpwYXNzd29yZA==",
        "curl -H 'api-key: 0123456789abcdef'",
        "bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123",
        "http://me:0123456789@proxy.local/v1",
        "gsk_0123456789abcdefghij",
        "hf_0123456789abcdefghij",
    ],
)
def test_what_looks_like_a_key_is_taken_out_too(text: str) -> None:
    said = Scrubber().text(text)
    assert MARK in said and "0123456789" not in said and "AbCdEf" not in said and "dXNlcjp" not in said


@pytest.mark.parametrize(
    "text",
    [
        KERNEL,
        "basic operations and bearer of news, a task-based approach to disk-stored blocks",
        "BLOCK=128 -O3 -march=native --use_fast_math",
        "http://127.0.0.1:8000/v1/models?limit=20",
        "api_key: none",
        "sk-learn",
        '{"attempt": "a12", "kernel": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}',
    ],
)
def test_what_is_no_key_stays(text: str) -> None:
    assert Scrubber([KEY]).text(text) == text


def test_keys_are_found_in_addresses_and_in_base64_too() -> None:
    connection = BUILT_IN["openai"].model_copy(
        update={"key": SecretStr(KEY), "base_url": "http://user:hidden-word@proxy/v1"}
    )
    scrubber = Scrubber.of(Connections(providers={"openai": connection}))
    assert scrubber.known(f"{KEY} hidden-word {base64.b64encode(KEY.encode()).decode()}") == " ".join([MARK] * 3)


def test_an_exception_is_cleaned_with_all_that_it_came_from() -> None:
    try:
        try:
            raise ValueError(f"header {KEY}")
        except ValueError as error:
            raise ModelError("transient", f"lost {KEY}", f"look at {KEY}") from error
    except ModelError as error:
        Scrubber([KEY]).error(error)
        said = "".join(traceback.format_exception(error)) + error.message + error.advice
    assert KEY not in said and said.count(MARK) >= 4


def test_the_journal_writes_and_tells_no_key(tmp_path: Path) -> None:
    told: list[Event] = []
    with Journal(tmp_path / "events.jsonl", told.append, Scrubber([KEY])) as journal:
        journal.tell("run_failed", error="X", message=f"{KEY} and {SHAPED}", advice="")
        journal.tell("profiled", attempt="a0", bottleneck="memory", evidence=[f"deep {KEY}"], seconds=1.0)
    written = (tmp_path / "events.jsonl").read_text()
    assert KEY not in written and SHAPED not in written and not any(KEY in event.model_dump_json() for event in told)


def test_a_run_folder_keeps_out_what_it_is_told_to(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "stub", {})
    run.keep_out(Scrubber([KEY]).known)
    attempt = Attempt(
        id="a0", parent=None, iteration=0, kernel_id="k", kernel={"files": {"kernel.cpp": KEY}}, change=KEY,
        outcome="rejected", note=KEY, judged_at=0.0, device_seconds=0.0,
    )  # fmt: skip
    run.add_attempt(attempt, {"kernel.cpp": f"// {KEY}"}, {"message": KEY})
    run.add_profile("a0", {"x": KEY})
    run.add_diagnosis("a0", {"x": KEY})
    run.add_hint(KEY, 1)
    run.write_facts({"x": KEY})
    run.write_outcome({"x": [KEY]})
    run.evicted.put(KEY)
    run.transcript("t").add({"text": KEY})
    assert MARK in run.blobs.get(run.blobs.put(f"say {KEY}"))
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert len(files) >= 10 and not [path for path in files if KEY in path.read_text()]


# --- a whole run ------------------------------------------------------------------------------------------------------


class Leaky(Brain):
    """Says the key in every way in which a model or its provider can."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __call__(self, request: Recorded) -> Answer | Fault:  # type: ignore[override]
        self.calls += 1
        if request.wire == "messages":
            return status(
                400, message=f"bad header authorization: Bearer {KEY}", body=None, type="invalid_request_error"
            )
        if self.calls == 2:
            return status(503, body=f"upstream said {KEY} and {SHAPED}")
        answer = super().answer(request)
        if not answer.calls:
            return Answer(f"Done with {KEY}.")
        (call,) = answer.calls
        arguments: dict[str, Any] = json.loads(json.dumps(call.arguments))
        if call.name == "propose":
            arguments["hypotheses"][0]["idea"] = f"the key {KEY} helps"
            return Answer(f"My key is {KEY}", (Call("propose", arguments),), reasoning=f"I know {KEY}")
        files = {"kernel.cpp": f"// {KEY}\n{KERNEL}"}
        search = Call("search", {"query": "planted secret passphrase", "where": "documents"})
        candidate = {"files": files, "defines": {"BLOCK": 10 + self.calls}}
        return Answer(calls=(search, Call("run", {"mode": "full", "candidates": [candidate]})))


def breaks_with_headers(_: Sequence[Message]) -> Reply:
    cause = KeyError(f"headers={{'authorization': 'Bearer {KEY}'}}")
    raise RuntimeError(f"request failed: x-api-key: {KEY}") from cause


async def test_no_key_is_in_anything_that_a_run_leaves_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "notes.md").write_text(f"# Notes\n\nThe planted secret passphrase is {KEY}.\n")
    diagnosis = {"attempt": "a1", "bottleneck": "memory", "evidence": [KEY], "summary": KEY, "hypothesis_held": None}
    reader = ScriptedModel([calls("diagnose", {"diagnoses": [diagnosis]}), breaks_with_headers], name="scripted:reader")
    monkeypatch.setitem(registry.LOCAL, "scripted", lambda *_: reader)
    run = RunFolder.create(tmp_path / "runs", "stub", {})
    events: list[Event] = []
    control = Control()
    control.stopping = Hasty()
    told: list[str] = []
    with LlmServer(Leaky()) as server, pytest.raises(RuntimeError) as caught:
        await optimize(
            TASK,
            RunSettings(
                budgets=Budgets(iterations=3, near_limit=None, patience=None),
                models=Models(
                    planner="anthropic:m",
                    coder="openai:m",
                    analyst="scripted:reader",
                    fallback={"planner": ("openai-chat:m",)},
                ),
                documents=(str(tmp_path / "documents"),),
            ),
            run,
            StubExecutor(seconds_of),
            events.append,
            control=control,
            connections=connections_to(server.url, KEY),
            catalogue=CATALOGUE,
            on_text=lambda _, piece: told.append(piece),
        )
    kinds = {event.event for event in events}
    assert {"model_failed", "model_retried", "model_changed", "run_failed", "diagnosed"} <= kinds, "all was planted"
    assert len(run.attempts()) >= 2 and any(event.fields.get("tool") == "search" for event in events)
    printed = capfd.readouterr()
    said = {
        "events": "".join(event.model_dump_json() for event in events),
        "exception": "".join(traceback.format_exception(caught.value)),
        "stdout": printed.out,
        "stderr": printed.err,
        "log": caplog.text,
        "sent": json.dumps([request.body for request in server.requests]),
    }
    said |= {str(path): path.read_bytes().decode("latin-1") for path in run.path.rglob("*") if path.is_file()}
    assert len(said) > 20
    leaks = [name for name, text in said.items() if KEY in text or json.dumps(KEY)[1:-1] in text]
    assert not leaks
    assert not [name for name, text in said.items() if SHAPED in text and name != "sent"]
    assert MARK in said["exception"] and MARK in said["events"]


# --- environments -----------------------------------------------------------------------------------------------------

KEYS = {
    "OPENAI_API_KEY": KEY,
    "ANTHROPIC_API_KEY": KEY,
    "ANTHROPIC_AUTH_TOKEN": KEY,
    "WARPSMITH_API_KEY": KEY,
    "OPENROUTER_API_KEY": KEY,
    "openai_api_key": KEY,
}
HARMLESS = {"PATH": "/bin", "HOME": "/root", "SSH_AUTH_SOCK": "/tmp/s", "WARPSMITH_CACHE": "/c", "KEYBOARD": "us"}


def test_what_compiles_or_judges_here_gets_no_secret() -> None:
    cloud = {"AWS_SECRET_ACCESS_KEY": KEY, "MY_TOKEN": KEY, "DB_PASSWORD": KEY}
    assert without_secrets({**KEYS, **cloud, **HARMLESS}) == HARMLESS


def test_a_command_that_reaches_another_machine_loses_only_models_keys() -> None:
    needed = {"AWS_SECRET_ACCESS_KEY": "x", "KUBE_TOKEN": "x"}
    assert without_model_keys(environ={**KEYS, **needed, **HARMLESS}) == {**needed, **HARMLESS}
    assert without_model_keys(["MY_VAR"], {"MY_VAR": KEY, **HARMLESS}) == HARMLESS


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MY_ENDPOINT", KEY)


@pytest.mark.usefixtures("planted")
def test_a_program_that_is_run_inherits_no_key() -> None:
    """A compiler, a profiler, whatever: none of them is given an environment of its own by default."""
    seen = run_command([sys.executable, "-c", "import os; print(dict(os.environ))"], timeout=60)
    assert seen.ok and "PATH" in seen.stdout
    assert KEY not in seen.stdout.replace("'MY_ENDPOINT': " + repr(KEY), "")


@pytest.mark.usefixtures("planted")
async def test_a_command_executor_starts_its_command_without_keys(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f"env > {seen}; exit 3"
    executor = CommandExecutor(["sh", "-c", script], withheld=["MY_ENDPOINT"])
    executor._pause = 0.0
    with pytest.raises(Exception, match="worker behind"):
        await executor.open(TASK)
    await executor.close()
    written = seen.read_text()
    assert "PATH=" in written and KEY not in written
    assert os.environ["OPENAI_API_KEY"] == KEY, "ours is as it was"
