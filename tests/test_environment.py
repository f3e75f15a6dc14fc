"""The judge as an environment: episodes and their budgets, both transports, hostile messages, and no reward for a
failure of the machine."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import HONEST, SAXPY, SLOW, WRONG
from stub_executor import KERNEL, TASK, StubExecutor

from agents.environment import Environment, Limits
from agents.environment_protocol import MOST_BYTES, Unfit, read_fields
from agents.rewards import Scale
from app import training
from app.training import TOKEN_VARIABLE, token_for_requests
from app.training_http import serve_http
from app.training_lines import serve_lines
from tools.errors import InfrastructureError, KernelError, WarpsmithError
from tools.facts import TaskFacts
from tools.records import Kernel, TargetName, Unjudged, Verdict
from tools.task import TaskSource

TOKEN = "a-token-that-is-long-enough"


def seconds_of(kernel: Kernel) -> float | None:
    """By BLOCK; a kernel that says `wrong` is wrong."""
    return None if "wrong" in kernel.files["kernel.cpp"] else 1.0 / int(kernel.defines.get("BLOCK", 8))


def made(limits: Limits = Limits(), scale: Scale = "continuous", task: TaskSource = TASK) -> Environment:  # noqa: B008
    return Environment(task, "cpp", StubExecutor(seconds_of), limits, scale)


def block(size: int, **more: object) -> dict[str, Any]:
    return {"defines": {"BLOCK": size}, **more}


async def begin(environment: Environment, **fields: Any) -> str:
    return str((await environment.answer("reset", fields))["episode"])


async def step(environment: Environment, episode: str, action: Any, **more: Any) -> dict[str, Any]:
    return await environment.answer("step", {"episode": episode, "action": action, **more})


async def fault_of(environment: Environment, op: str, fields: dict[str, Any]) -> tuple[str, bool]:
    with pytest.raises(Unfit) as caught:
        await environment.answer(op, fields)
    return caught.value.fault, bool(caught.value.as_json["retriable"])


# Episodes


async def test_an_episode_goes_from_the_starting_kernel_to_the_end_of_its_steps() -> None:
    environment = made(Limits(steps=3))
    begun = await environment.answer("reset", {})
    seen, episode = begun["observation"], str(begun["episode"])
    assert isinstance(seen, dict) and seen["header"] == "// task.h\n" and seen["entry_file"] == "kernel.cpp"
    assert seen["start"]["files"] == {"kernel.cpp": KERNEL} and seen["start"]["verdict"]["status"] == "accepted"  # type: ignore[index, call-overload]
    assert begun["info"] == {"left": {"steps": 3, "device_seconds": None}}
    first = await step(environment, episode, block(16))
    assert (first["reward"], first["done"], first["observation"]["best"]) == (pytest.approx(1.0), False, "s1")
    assert first["observation"]["verdict"]["against_best"]["decision"] == "faster"
    wrong = await step(environment, episode, {"edits": [{"file": "kernel.cpp", "old": "solve", "new": "wrong"}]})
    assert (wrong["reward"], wrong["observation"]["outcome"], wrong["observation"]["best"]) == (-1.0, "rejected", "s1")
    assert wrong["observation"]["verdict"]["reason"] == "wrong_result"
    last = await step(environment, episode, block(4, base="start"))
    assert (last["observation"]["outcome"], last["done"], last["info"]["ended"]) == ("slower", True, "steps")
    assert await fault_of(environment, "step", {"episode": episode, "action": {}}) == ("episode", False)


async def test_rewards_are_steps_on_demand_and_both_are_told() -> None:
    environment = made(scale="steps")
    answer = await step(environment, await begin(environment), block(16))
    assert (answer["reward"], answer["info"]["reward_steps"]) == (3.0, 3)
    assert answer["info"]["reward_continuous"] == pytest.approx(1.0)


async def test_an_action_starts_from_the_best_the_last_the_start_or_any_step() -> None:
    environment = made()
    episode = await begin(environment)
    await step(environment, episode, block(64))
    await step(environment, episode, block(16, flags=["-O1"]))
    for base, expected in (("last", "16"), (None, "64"), ("best", "64"), ("start", "8"), ("s2", "16")):
        action = {"edits": [{"file": "kernel.cpp", "old": "* BLOCK", "new": f"* BLOCK + {expected}"}]}
        answer = await step(environment, episode, action | ({} if base is None else {"base": base}))
        assert answer["observation"]["verdict"]["seconds"] == pytest.approx(1 / int(expected), rel=1e-3), base
    with pytest.raises(Unfit, match="s9"):
        await step(environment, episode, {"base": "s9"})


async def test_a_kernel_is_judged_once_an_episode_and_the_start_once_for_all() -> None:
    environment = made()
    executor = environment._executor
    assert isinstance(executor, StubExecutor)
    episodes = await asyncio.gather(*(begin(environment) for _ in range(5)))
    assert len(executor.judged) == 1
    twice = [await step(environment, episodes[0], block(32)) for _ in range(2)]
    assert [answer["info"]["already_judged"] for answer in twice] == [False, True]
    again = await step(environment, episodes[0], {"base": "start"})
    assert again["info"]["already_judged"] and len(executor.judged) == 2


async def test_device_seconds_bound_an_episode_and_a_client_may_ask_for_less() -> None:
    environment = made(Limits(steps=5, device_seconds=2.0))
    executor = environment._executor
    slow = executor.evaluate

    async def measured(*given: Any, **named: Any) -> Verdict:
        verdict = await slow(*given, **named)
        stages = tuple(stage.model_copy(update={"seconds": 1.25}) for stage in verdict.stages)
        return verdict.model_copy(update={"stages": stages})

    executor.evaluate = measured  # type: ignore[method-assign]
    ends = {}
    for asked in ({}, {"device_seconds": 1.0}, {"device_seconds": 99.0, "steps": 99}, {"steps": 1}):
        episode, taken = await begin(environment, **asked), 0
        done = False
        while not done:
            answer = await step(environment, episode, block(8 + taken))
            taken, done = taken + 1, answer["done"]
        ends[str(asked)] = (taken, answer["info"]["ended"], answer["info"]["left"]["device_seconds"])
    assert list(ends.values()) == [
        (2, "device_seconds", 0.0),
        (1, "device_seconds", 0.0),
        (2, "device_seconds", 0.0),
        (1, "steps", 0.75),
    ]


async def test_places_are_bounded_and_come_free() -> None:
    environment = made(Limits(episodes=2, steps=1))
    first, _ = await begin(environment), await begin(environment)
    assert await fault_of(environment, "reset", {}) == ("full", True)
    await step(environment, first, block(16))  # over, so that its place is free
    third = await begin(environment)
    assert await fault_of(environment, "step", {"episode": first, "action": {}}) == ("episode", False)
    assert await fault_of(environment, "reset", {}) == ("full", True)
    assert (await environment.answer("close", {"episode": third}))["steps"] == 0
    await begin(environment)


async def test_several_episodes_go_on_at_once_and_one_takes_a_step_at_a_time() -> None:
    environment = made()
    executor = environment._executor
    let, judging, evaluate = asyncio.Event(), 0, executor.evaluate

    async def waits(*given: Any, **named: Any) -> Verdict:
        nonlocal judging
        judging += 1
        await let.wait()
        return await evaluate(*given, **named)

    episodes = [await begin(environment) for _ in range(3)]
    executor.evaluate = waits  # type: ignore[method-assign]
    going = [asyncio.create_task(step(environment, episode, block(16))) for episode in episodes]
    while judging < 3:
        await asyncio.sleep(0)
    assert await fault_of(environment, "step", {"episode": episodes[0], "action": block(32)}) == ("busy", True)
    let.set()
    assert [answer["step"] for answer in await asyncio.gather(*going)] == [0, 0, 0]


async def test_a_numbered_step_may_be_sent_again() -> None:
    environment = made()
    episode = await begin(environment)
    first = await step(environment, episode, block(16), step=0)
    assert await step(environment, episode, block(16), step=0) == first
    for number in (2, 7):
        assert await fault_of(environment, "step", {"episode": episode, "action": {}, "step": number}) == (
            "episode",
            False,
        )
    second = await step(environment, episode, block(32), step=1)
    assert second["step"] == 1 and await step(environment, episode, block(32), step=1) == second


class Failing(StubExecutor):
    """Fails as often as it is told to: by an error, or by a verdict that nothing was learnt."""

    def __init__(self, opening: Sequence[Exception] = (), judging: Sequence[Exception | None] = ()) -> None:
        super().__init__(seconds_of)
        self.opening, self.judging = list(opening), list(judging)

    async def open(self, task: TaskSource, target: TargetName = "cpu") -> TaskFacts:
        if self.opening:
            raise self.opening.pop(0)
        return await super().open(task, target)

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        if not self.judging:
            return await super().evaluate(task, kernel, incumbent, final=final)
        error = self.judging.pop(0)
        if error is not None:
            raise error
        return Unjudged(kernel=kernel.id, message="the device is gone")


async def test_a_failure_of_the_machine_is_no_reward_and_no_step() -> None:
    gone = InfrastructureError("the judge is gone", "Look after it.")
    environment = Environment(TASK, "cpp", Failing([gone], [None, gone]), Limits(steps=1))
    for _ in range(3):  # the task can't be opened; the start can't be judged, twice
        assert await fault_of(environment, "reset", {}) == ("infrastructure", True)
    episode = await begin(environment)
    executor = environment._executor
    assert isinstance(executor, Failing)
    executor.judging = [None, gone]
    for _ in range(2):
        assert await fault_of(environment, "step", {"episode": episode, "action": block(16)}) == (
            "infrastructure",
            True,
        )
    assert (await step(environment, episode, block(16)))["done"]


async def test_settings_that_are_not_allowed_are_the_actions_fault() -> None:
    environment = made()
    episode = await begin(environment)
    environment._executor = Failing(judging=[KernelError("the flag -fplugin=x is not allowed", "Use others.")])
    assert await fault_of(environment, "step", {"episode": episode, "action": block(16)}) == ("action", False)


async def test_a_task_without_a_starting_kernel_needs_a_whole_one() -> None:
    environment = made(task=TASK.model_copy(update={"start": {}}), scale="steps")
    begun = await environment.answer("reset", {})
    assert begun["observation"]["start"] is None  # type: ignore[index, call-overload]
    episode = str(begun["episode"])
    assert await fault_of(environment, "step", {"episode": episode, "action": {}}) == ("action", False)
    answer = await step(environment, episode, {"files": {"kernel.cpp": KERNEL}})
    assert (answer["reward"], answer["observation"]["outcome"]) == (2.0, "kept")  # nothing to be faster than for 3


# Hostile messages

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["episode", "action", "step", "steps", "device_seconds", "files", "edits", "base", "x"])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["reset", "step", "close", "info", "", "x" * 99]), st.dictionaries(NAMES, JSON_VALUES))
def test_no_message_does_more_than_be_refused(op: str, fields: dict[str, Any]) -> None:
    async def say() -> None:
        environment = made()
        episode = await begin(environment)
        fields.update({"episode": episode} if op == "step" and len(fields) % 2 else {})
        try:
            await environment.answer(op, fields)
        except Unfit as unfit:
            assert unfit.message and json.dumps(unfit.as_json)
        assert (await step(environment, episode, block(32), step=None))["reward"] is not None

    asyncio.run(say())


BAD_BODIES = [
    b"",
    b"[]",
    b"nonsense",
    b'"text"',
    b"\xff\xfe{}",
    b"[" * 100_000,
    b'{"a": ' + b"9" * 10_000 + b"}",
    b'{"episode": "\\ud800"}',
    b'{"id": NaN}',
    b'{"id": [-Infinity]}',
    b'{"id": 1e999}',
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(Unfit) as caught:
        read_fields(body)
    assert caught.value.fault == "protocol"


@pytest.mark.parametrize(
    "action",
    [
        None,
        [],
        "text",
        {"files": {"kernel.cpp": 3}},
        {"files": []},
        {"edits": [{"file": "kernel.cpp", "old": "", "new": ""}]},
        {"edits": [{"file": "../x", "old": "a", "new": "b"}]},
        {"remove": ["kernel.cpp"]},
        {"defines": {"BLOCK": [1]}},
        {"flags": "-O3"},
        {"shell": "rm -rf /"},
        {"base": "a1"},
    ],
)
async def test_a_wrong_action_is_told_what_is_wrong_and_costs_nothing(action: Any) -> None:
    environment = made(Limits(steps=1))
    episode = await begin(environment)
    with pytest.raises(Unfit) as caught:
        await step(environment, episode, action)
    assert caught.value.fault == "action" and caught.value.message
    assert (await step(environment, episode, block(16)))["done"]


# By lines


async def by_lines(environment: Environment, *messages: bytes) -> list[dict[str, Any]]:
    sink = io.BytesIO()
    await serve_lines(environment, io.BytesIO(b"\n".join(messages)), sink, asyncio.Event())
    return [json.loads(line) for line in sink.getvalue().splitlines()]


async def test_every_line_is_answered_under_its_id() -> None:
    long = b'{"id": 7, "op": "info", "pad": "' + b"x" * MOST_BYTES + b'"}'
    answers = await by_lines(
        made(),
        b'{"id": 1, "op": "info"}',
        b"",
        b'{"id": "two", "op": "nothing"}',
        b"nonsense",
        long,
        b'{"v": 2, "id": 3, "op": "info"}',
        b'{"id": [4], "op": "reset", "v": 1}',
        b'{"id": 5, "op": {"a": 1}}',
    )
    found = {json.dumps(answer["id"]): answer.get("error", {}).get("kind", "result") for answer in answers}
    assert len(answers) == 7 and all(answer["v"] == 1 for answer in answers)
    assert found == {
        "1": "result",
        '"two"': "protocol",
        "null": "protocol",
        "3": "protocol",
        "[4]": "result",
        "5": "protocol",
    }
    assert [answer["id"] for answer in answers].count(None) == 2


async def test_a_stop_does_not_wait_for_input_or_for_the_judge() -> None:
    environment = made()
    episode = await begin(environment)
    executor = environment._executor
    assert isinstance(executor, StubExecutor)
    executor.hang = True
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as source:
        stopped = asyncio.Event()
        serving = asyncio.create_task(serve_lines(environment, source, io.BytesIO(), stopped))
        ours.sendall(json.dumps({"op": "step", "episode": episode, "action": block(16)}).encode() + b"\n")
        while len(executor.judged) < 2:
            await asyncio.sleep(0.001)
        stopped.set()
        await serving
        ours.shutdown(socket.SHUT_RDWR)


# Over HTTP


@asynccontextmanager
async def served(environment: Environment) -> AsyncIterator[int]:
    async with serve_http(environment, "127.0.0.1", 0, TOKEN) as url:
        yield int(url.rsplit(":", 1)[1].split("/")[0])


async def ask(
    port: int, method: str, path: str, body: bytes | None = b"{}", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    def send() -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"} if headers is None else headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    return await asyncio.to_thread(send)


async def test_http_carries_whole_episodes_several_at_once() -> None:
    async with served(made(Limits(steps=2))) as port:
        assert (await ask(port, "GET", "/v1/info", None))[1]["result"]["task"] == "stub"

        async def play(size: int) -> float:
            _, begun = await ask(port, "POST", "/v1/reset")
            message = {"episode": begun["result"]["episode"], "action": block(size), "step": 0}
            status, answer = await ask(port, "POST", "/v1/step", json.dumps(message).encode())
            again = await ask(port, "POST", "/v1/step", json.dumps(message).encode())
            assert (status, answer) == (200, again[1])
            closed, _ = await ask(
                port, "POST", "/v1/close", json.dumps({"episode": begun["result"]["episode"]}).encode()
            )
            assert closed == 200
            return float(answer["result"]["reward"])

        rewards = await asyncio.gather(*(play(size) for size in (4, 16, 64, 1)))
        assert rewards[3] < rewards[0] < rewards[1] == rewards[2] == 1.0


async def test_http_refuses_whoever_has_no_token_and_what_is_too_much() -> None:
    async with served(made()) as port:
        for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": TOKEN}, {"Authorization": "Bearer \xff"}):
            status, answer = await ask(port, "POST", "/v1/reset", b"{}", headers)
            assert status == 401 and "token" in answer["error"]["message"]
        for method, path in (("POST", "/v1/info"), ("GET", "/v1/reset"), ("POST", "/v2/reset"), ("POST", "/v1/../x")):
            assert (await ask(port, method, path))[0] == 404
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        assert (await ask(port, "POST", "/v1/reset", None, allowed | {"Content-Length": str(MOST_BYTES + 1)}))[0] == 413
        for length in ("-1", "x", "1" * 30):
            assert (await ask(port, "POST", "/v1/reset", None, allowed | {"Content-Length": length}))[0] == 411
        chunked = allowed | {"Transfer-Encoding": "chunked"}
        assert (await ask(port, "POST", "/v1/reset", b"2\r\n{}\r\n0\r\n\r\n", chunked))[0] == 411
        assert (await ask(port, "POST", "/v1/step", b'{"episode": "x", "action": {}}'))[0] == 409
        assert (await ask(port, "POST", "/v1/step", b'{"episode": "x", "action": 3}'))[0] == 422
        assert (await ask(port, "POST", "/v1/reset", b"\xff"))[0] == 400
        assert (await ask(port, "POST", "/v1/reset"))[0] == 200


async def test_http_says_of_a_broken_machine_that_it_may_be_asked_again() -> None:
    gone = InfrastructureError("the judge is gone", "")
    environment = Environment(TASK, "cpp", Failing([gone]), Limits())
    async with served(environment) as port:
        status, answer = await ask(port, "POST", "/v1/reset")
        assert status == 503 and answer["error"]["retriable"]
        assert (await ask(port, "POST", "/v1/reset"))[0] == 200


async def test_a_client_that_goes_away_in_the_middle_harms_nobody() -> None:
    async with served(made()) as port:
        for sent in (
            b"POST /v1/reset HTTP/1.1\r\n",
            b"\x00" * 100 + b"\r\n\r\n",
            b"POST /v1/reset HTTP/1.1\r\nContent-",
        ):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(sent)
        assert (await ask(port, "POST", "/v1/reset"))[0] == 200


# The command


@pytest.mark.slow
def test_the_command_judges_real_kernels(tmp_path: Path) -> None:
    (tmp_path / "saxpy.py").write_text(SAXPY)
    (tmp_path / "saxpy.cpp").write_text(SLOW)
    program = [str(Path(sys.executable).with_name("warpsmith")), "env", "saxpy.py", "--steps", "5"]
    with subprocess.Popen(program, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as lines:
        assert lines.stdin is not None and lines.stdout is not None
        assert json.loads(lines.stdout.readline()) == {"v": 1, "ready": {"transport": "lines"}}

        def say(**message: Any) -> dict[str, Any]:
            assert lines.stdin is not None and lines.stdout is not None
            print(json.dumps(message), file=lines.stdin, flush=True)
            answer: dict[str, Any] = json.loads(lines.stdout.readline())
            return answer

        episode = say(op="reset", id=1)["result"]["episode"]
        right = say(op="step", id=2, episode=episode, action={"files": {"kernel.cpp": HONEST}})["result"]
        assert right["observation"]["outcome"] == "kept" and right["info"]["reward_steps"] in (1, 2, 3)
        wrong = say(op="step", id=3, episode=episode, action={"files": {"kernel.cpp": WRONG}})["result"]
        assert (wrong["reward"], wrong["observation"]["verdict"]["reason"]) == (-1.0, "wrong_result")
        assert wrong["observation"]["verdict"]["mismatch"]["index"] == [1234]
        for odd in ({"flags": ["-fplugin=/x.so"]}, {"files": {"../evil.h": "x"}}, {"defines": {"A B": "1"}}):
            answer = say(op="step", id=4, episode=episode, action=odd)
            assert answer.get("error", {}).get("kind") == "action" or answer["result"]["reward"] == -1.0, answer
        lines.stdin.close()
        assert lines.wait() == 0
    assert not list(tmp_path.parent.rglob("evil.h"))


class Pretended(StubExecutor):
    """As the command opens and closes one."""

    async def __aenter__(self) -> Pretended:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def test_http_is_served_until_a_signal_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "saxpy.py").write_text(SAXPY)
    (tmp_path / "saxpy.cpp").write_text(HONEST)
    monkeypatch.setattr(training, "executor_for", lambda _: Pretended(seconds_of))
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    statuses: list[int] = []
    announce = training._announce

    def announced(about: dict[str, str]) -> None:
        announce(about)
        threading.Thread(target=use, args=(about,)).start()

    def use(about: dict[str, str]) -> None:
        port = int(about["url"].rsplit(":", 1)[1].split("/")[0])
        headers = {"Authorization": f"Bearer {about['token']}"}
        statuses.append(asyncio.run(ask(port, "POST", "/v1/reset", b"{}", headers))[0])
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(training, "_announce", announced)
    serving = training.Serving(
        task=tmp_path / "saxpy.py",
        settings=(),
        target=None,
        executor="local",
        limits=Limits(),
        scale="continuous",
        host="127.0.0.1",
        port=0,
    )
    assert training.serve(serving) == 0 and statuses == [200]
    assert json.loads(capsys.readouterr().out)["ready"]["url"].startswith("http://127.0.0.1:")


@pytest.mark.parametrize("token", ["", "short", "with blanks in the middle", "ümlaut-ümlaut-ümlaut", "line\nbreak" * 3])
def test_a_token_that_no_header_could_bear_or_anybody_could_guess_is_refused(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    with pytest.raises(WarpsmithError, match=TOKEN_VARIABLE):
        token_for_requests()
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert token_for_requests() == (TOKEN, False)
    monkeypatch.delenv(TOKEN_VARIABLE)
    made_now, is_new = token_for_requests()
    assert is_new and len(made_now) > 32 and token_for_requests() != (made_now, True)


async def test_a_port_that_is_taken_is_refused_with_advice() -> None:
    async with served(made()) as port:
        with pytest.raises(WarpsmithError, match=str(port)):
            async with serve_http(made(), "127.0.0.1", port, TOKEN):
                pass
