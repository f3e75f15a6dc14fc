"""Faults of the machine and of the network: the run waits, or ends with its reason; what was measured is kept, and a
resumed run comes to the end that it would have come to.

The disk is really full where this machine lets us mount one, and in any case by faults that are raised before file
operations. An hour is an hour of a clock that only waiting moves.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import killed_run
import pytest
from crash_harness import Story, differences, once
from power_cut import broken_json, leftovers
from scripted_model import says
from scripted_run import Stage, judge, proposal, reading, set_up
from stub_executor import TASK, StubExecutor
from test_disk import UNSHARE, mounts_work

from agents.control import Control
from agents.drive import optimize
from agents.limits import STOP_WORDS
from agents.models.base import Message, ModelError, Reply
from agents.models.retry import LONGEST_WAIT, Stopping
from agents.outcome import RunBroken
from agents.patient import Patient
from agents.settings import Budgets, RunSettings
from app.exits import BROKEN, FAILED, guarded
from memory.runs import RunFolder
from tests.llm_server import LlmServer, status
from tests.talking_run import Brain, connections_to, settings_for
from tools.errors import InfrastructureError
from tools.records import Kernel, Unjudged, Verdict

ITERATIONS = 3
HOUR = 3600.0
ROOT = Path(__file__).parent
XID = "CUDA_ERROR_DEVICE_UNAVAILABLE: GPU has fallen off the bus (Xid 79)"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A run that nothing happens to."""
    story = Story(tmp_path_factory.mktemp("whole") / "run", "builtin", ITERATIONS)
    assert story.child(partial(story.play, count=story.root / "operations")) == 0
    return story


class Hours(Stopping):
    """A clock that only waiting moves, and what happens at some of its times."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self.waits: list[float] = []
        self.then: Callable[[float], None] = lambda _: None

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += seconds
        self.then(self.at)
        await asyncio.sleep(0)


# --- the disk ---------------------------------------------------------------------------------------------------------


def unharmed(story: Story, whole: Story) -> list[str]:
    """What is not as it should be after a resumed run."""
    run = RunFolder(story.run.path)
    found = [*differences(run, RunFolder(whole.run.path)), *once(run)]
    found += [f"left behind: {path}" for path in leftovers(run.path)]
    return found + [f"half-written: {path}" for path in broken_json(run.path.rglob("*.json"))]


def harmed(story: Story, harm: Callable[[], None]) -> str:
    """The failure of a run to which that is done first; empty when it came to its end."""
    (story.root / "failure").unlink(missing_ok=True)
    return (story.root / "failure").read_text() if story.child(partial(play_harmed, story, harm)) else ""


def play_harmed(story: Story, harm: Callable[[], None], fatal: int | None = None) -> None:
    harm()
    story.play(fatal=fatal)


def fail_from(root: Path, first: int, number: int) -> None:
    """From that operation below `root` on, all that write fail with that error."""
    done, prefix = 0, str(root)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done
        writes = event in ("os.rename", "os.mkdir", "os.symlink", "os.truncate") or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if writes and str(arguments[0]).startswith(prefix):
            done += 1
            if done >= first:
                raise OSError(number, os.strerror(number))

    sys.addaudithook(hook)


def set_clock(jump: float) -> None:
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + jump  # type: ignore[assignment]
    time.time_ns = lambda: real_ns() + int(jump * 1e9)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("number", "says", "parts"),
    [
        (errno.ENOSPC, "full", (0.03, 0.2, 0.4, 0.61, 0.83, 0.97)),
        (errno.EROFS, "read-only", (0.11, 0.5)),
        (errno.EDQUOT, "quota", (0.7,)),
    ],
)
def test_wherever_writing_begins_to_fail_the_run_says_so_and_goes_on_afterwards(
    tmp_path: Path, whole: Story, number: int, says: str, parts: Sequence[float]
) -> None:
    operations = int((whole.root / "operations").read_text())
    for part in parts:
        first = 1 + int(part * operations)
        story = Story(tmp_path / str(first), "builtin", ITERATIONS)
        failure = harmed(story, partial(fail_from, story.run.path, first, number))
        assert failure == "" or says in failure.lower(), failure
        measured = RunFolder(story.run.path).attempts()
        assert story.child(story.play) == 0, (story.root / "failure").read_text()
        assert unharmed(story, whole) == []
        assert RunFolder(story.run.path).attempts()[: len(measured)] == measured


@pytest.mark.parametrize("bytes_left", [3_000, 40_000])
def test_a_file_that_may_grow_no_further_is_no_torn_file(tmp_path: Path, whole: Story, bytes_left: int) -> None:
    story = Story(tmp_path / "run", "builtin", ITERATIONS)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    failure = harmed(story, partial(resource.setrlimit, resource.RLIMIT_FSIZE, (bytes_left, hard)))
    assert "can't write" in failure
    assert (story.run.path / "events.jsonl").read_bytes()[-1:] in (b"\n", b"")
    assert story.child(story.play) == 0, (story.root / "failure").read_text()
    assert unharmed(story, whole) == []


async def test_events_that_find_no_room_end_the_run_with_its_reason(stage: Stage) -> None:
    events = stage.run.path / "events.jsonl"

    def fill(_: Sequence[Message]) -> Reply:
        events.rename(stage.run.path / "events.moved")
        events.symlink_to("/dev/full")
        return judge(64)

    stage.script([proposal("x")], [fill], [])
    with pytest.raises(RunBroken, match="the disk is full") as broken:
        await stage.play()
    assert broken.value.reason == "disk"
    events.unlink()
    (stage.run.path / "events.moved").rename(events)
    assert (RunFolder(stage.run.path).outcome() or {})["reason"] == "disk"
    stage.script([], [judge(64), says("Done.")], [reading("a1")])
    outcome = await stage.play()
    assert (outcome.reason, outcome.best) == ("iterations", "a1")


IN_A_SMALL_ROOM = """
import json, subprocess, sys
from pathlib import Path
from crash_harness import Story
folder, found = Path(sys.argv[1]), []
for size in sys.argv[2:]:
    story = Story(folder / size, "builtin", 3)
    def mount(options, path):
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(path)], check=True)
    config = (story.run.path / "config.json").read_text()
    mount(f"size={size}k", story.run.path)
    (story.run.path / "config.json").write_text(config)
    status = story.child(story.play)
    failure = (story.root / "failure").read_text() if status else ""
    measured = len(__import__("memory.runs").runs.RunFolder(story.run.path).attempts())
    mount("remount,size=64m", story.run.path)
    status = story.child(story.play)
    found.append([size, failure, measured, status, (story.root / "failure").read_text() if status else ""])
    subprocess.run(["cp", "-a", str(story.run.path), f"{story.root}/kept"], check=True)
print(json.dumps(found))
"""


@pytest.mark.skipif(not mounts_work(), reason="this machine lets nobody mount in a namespace")
def test_a_disk_that_is_really_full_is_said_and_costs_nothing_that_was_measured(tmp_path: Path, whole: Story) -> None:
    sizes = ("48", "140", "210", "290")
    command = [*UNSHARE, sys.executable, "-P", "-c", IN_A_SMALL_ROOM, str(tmp_path), *sizes]
    environment = os.environ | {"PYTHONPATH": f"{ROOT.parent}:{ROOT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert any(failure for _, failure, *_ in found) and any(measured for _, _, measured, *_ in found)
    for size, failure, measured, status_of_resumed, failure_of_resumed in found:
        assert failure == "" or "full" in failure, failure
        assert status_of_resumed == 0, failure_of_resumed
        run = RunFolder(tmp_path / size / "kept")
        assert differences(run, RunFolder(whole.run.path)) == [] and once(run) == [], size
        assert len(run.attempts()) == ITERATIONS + 1 >= measured and leftovers(run.path) == []


@pytest.mark.parametrize("again", [False, True])
async def test_a_run_folder_that_is_gone_ends_the_run_and_is_not_begun_anew(stage: Stage, again: bool) -> None:
    """again: somebody put another folder in its place."""

    def remove(_: Sequence[Message]) -> Reply:
        shutil.rmtree(stage.run.path)
        if again:
            stage.run.path.mkdir()
        return judge(64)

    stage.script([proposal("x")], [remove], [])
    with pytest.raises(RunBroken, match=r"the run folder .* is gone|No such file") as broken:
        await stage.play()
    assert broken.value.reason == "disk"
    assert not stage.run.path.exists() or list(stage.run.path.iterdir()) == []


# --- the clock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_clock_that_is_set_changes_no_end(tmp_path: Path, whole: Story, jump: float) -> None:
    """It is set amid the run, which has a time budget, is killed, and goes on by the clock as it was."""
    story = Story(tmp_path / "run", "builtin", ITERATIONS, wall_time=1800.0)
    operations = int((whole.root / "operations").read_text())

    def play(fatal: int | None, jump: float) -> int:
        return story.child(partial(play_harmed, story, partial(set_clock, jump), fatal))

    assert play(operations // 3, 0.0) != 0
    assert play(operations // 3, jump) != 0
    assert play(operations // 4, 0.0) != 0
    assert play(None, jump) == 0, (story.root / "failure").read_text()
    assert unharmed(story, whole) == []
    elapsed = [e["elapsed"] for e in RunFolder(story.run.path).events() if "elapsed" in e]
    assert elapsed == sorted(elapsed) and elapsed[-1] < 1800.0


# --- providers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "unreachable"),
    [("it can't be reached (Connection refused)", True), ("nothing came in time", False), ("HTTP 503", False)],
)
async def test_a_provider_that_is_down_for_an_hour_is_waited_for(stage: Stage, message: str, unreachable: bool) -> None:
    clock = stage.control.stopping = Hours()

    def down(messages: Sequence[Message]) -> Reply:
        if clock.at < HOUR:
            stage.models["coder"]._lines.insert(0, down)
            raise ModelError("transient", message, unreachable=unreachable)
        return judge(128)

    stage.script(
        [proposal("x"), proposal("y")],
        [judge(64), says("Done."), down, says("Done.")],
        [reading("a1"), reading("a2")],
    )
    outcome = await stage.play(iterations=2, wall_time=3 * HOUR)
    assert (outcome.reason, outcome.best) == ("iterations", "a2")
    retried = stage.told("model_retried")
    waits = [event["wait"] for event in retried]
    assert len(waits) >= HOUR / LONGEST_WAIT and max(waits) <= LONGEST_WAIT and waits[0] <= 2.0 < waits[5]
    assert all(message in event["message"] for event in retried), "it says so each time"
    assert HOUR <= outcome.elapsed < 1.1 * HOUR and len(stage.executor.judged) == 4


async def test_an_outage_is_waited_for_no_longer_than_the_run_may_last_and_then_resumed(stage: Stage) -> None:
    clock = stage.control.stopping = Hours()

    def down(_: Sequence[Message]) -> Reply:
        stage.models["coder"]._lines.insert(0, down)
        raise ModelError("transient", "HTTP 503")

    stage.script([proposal("x")], [judge(64), down], [reading("a1")])
    outcome = await stage.play(wall_time=1200.0)
    assert outcome.reason in ("models_unavailable", "wall_time") and outcome.best == "a1"
    assert 1000.0 < clock.at <= 1200.0
    stage.control.stopping = Hours()
    stage.script([], [says("Done.")], [reading("a1")])
    outcome = await stage.play(wall_time=3000.0)
    assert (outcome.reason, outcome.best) == ("iterations", "a1")


async def test_one_that_never_replied_is_waited_for_a_quarter_of_an_hour(stage: Stage) -> None:
    clock = stage.control.stopping = Hours()

    def down(_: Sequence[Message]) -> Reply:
        stage.models["planner"]._lines.insert(0, down)
        raise ModelError("transient", "it can't be reached")

    stage.script([down], [], [])
    outcome = await stage.play()
    assert (outcome.reason, outcome.best) == ("models_unavailable", "a0")
    assert 800.0 < clock.at <= 900.0


async def test_names_that_are_not_found_for_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real client and a real server; only the resolver is ours."""
    clock, look_up = Hours(), socket.getaddrinfo
    brain, asked = Brain(), 0

    def resolve(host: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal asked
        name = host.decode() if isinstance(host, bytes) else host
        if name != "models.example":
            return look_up(host, *arguments, **named)
        asked += 1
        if 0.0 < clock.at < HOUR or asked == 4:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return look_up("127.0.0.1", *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    told: list[Any] = []
    control = Control()
    control.stopping = clock
    with LlmServer(brain) as server:
        server.faults.extend([None, None, status(503, type="overloaded")])
        url = server.url.replace("127.0.0.1", "models.example")
        run = RunFolder.create(tmp_path, "stub", {})
        outcome = await optimize(
            TASK,
            settings_for("openai-chat:m"),
            run,
            StubExecutor(killed_run.seconds_of),
            told.append,
            control=control,
            connections=connections_to(url),
        )
    assert outcome.reason == "iterations" and outcome.iterations == 2
    messages = [event.fields["message"] for event in told if event.event == "model_retried"]
    assert any("503" in message for message in messages)
    assert any("can't be reached" in message and "name resolution" in message for message in messages), messages
    assert HOUR <= clock.at < 1.1 * HOUR


# --- the judge --------------------------------------------------------------------------------------------------------


class OffTheBus(StubExecutor):
    """A device that is gone from the evaluation of that number on, until it is seen to."""

    def __init__(self, gone_from: int, gone_for: int = 10**9, raises: bool = False) -> None:
        super().__init__(killed_run.seconds_of)
        self.left, self.gone_from, self.raises = gone_for, gone_from, raises
        self.tried = 0

    async def evaluate(self, task: Any, kernel: Kernel, *more: Any, **named: Any) -> Verdict:
        if len(self.judged) + 1 >= self.gone_from and self.left:
            self.left -= 1
            self.tried += 1
            if self.raises:
                raise InfrastructureError(XID, "Look at the machine.")
            return Unjudged(kernel=kernel.id, message=XID)
        return await super().evaluate(task, kernel, *more, **named)


async def play(run: RunFolder, executor: StubExecutor, told: list[Any], clock: Stopping | None = None) -> Any:
    control = Control()
    control.stopping = clock or Hours()
    settings = RunSettings(budgets=Budgets(iterations=ITERATIONS, near_limit=None, patience=None))
    return await optimize(TASK, settings, RunFolder(run.path), executor, told.append, control=control)


@pytest.mark.parametrize("raises", [False, True])
async def test_a_gpu_that_fell_off_the_bus_is_tried_a_few_times_and_then_ends_the_run(
    tmp_path: Path, whole: Story, raises: bool
) -> None:
    run, told, gone = RunFolder.create(tmp_path, "stub", {}), [], OffTheBus(3, raises=raises)
    with pytest.raises(RunBroken, match="Xid 79") as broken:
        await play(run, gone, told)
    assert broken.value.reason == "judge" and gone.tried <= 12
    retried = [event.fields for event in told if event.event == "judge_retried"]
    assert [event["wait"] for event in retried[:3]] == [5.0, 20.0, 60.0] and XID in retried[0]["message"]
    (failed,) = [event.fields for event in told if event.event == "run_failed"]
    assert failed["reason"] == "judge"
    ended = RunFolder(run.path).outcome() or {}
    assert ended["reason"] == "judge" and ended["counts"].get("kept", 0) >= 1 and ended["best"]
    judged = [a.kernel_id for a in RunFolder(run.path).attempts() if a.outcome != "unjudged"]
    again = OffTheBus(10**9)
    outcome = await play(run, again, told)
    assert outcome.reason == "iterations" and not set(judged[1:]) & set(again.judged[:-1])
    if raises:
        assert differences(RunFolder(run.path), RunFolder(whole.run.path)) == []


async def test_a_device_that_comes_back_costs_only_the_wait(tmp_path: Path, whole: Story) -> None:
    run, told, clock = RunFolder.create(tmp_path, "stub", {}), [], Hours()
    outcome = await play(run, OffTheBus(2, gone_for=3), told, clock)
    assert outcome.reason == "iterations" and clock.waits == [5.0, 20.0, 60.0]
    assert differences(RunFolder(run.path), RunFolder(whole.run.path)) == [] and once(RunFolder(run.path)) == []


async def test_a_stop_ends_the_wait_for_the_judge() -> None:
    clock = Hours()
    clock.set()
    patient = Patient(OffTheBus(1, raises=True), (5.0, 20.0), clock, lambda *_: None)
    with pytest.raises(InfrastructureError, match="Xid 79"):
        await patient.evaluate(TASK, Kernel(language="cpp", files={"kernel.cpp": ""}))
    assert clock.waits == []


# --- memory -----------------------------------------------------------------------------------------------------------


async def test_a_process_without_memory_ends_the_run_in_a_sentence_and_it_goes_on(stage: Stage) -> None:
    def starve(_: Sequence[Message]) -> Reply:
        raise MemoryError

    stage.script([proposal("x")], [judge(64), starve], [])
    with pytest.raises(RunBroken, match="ran out of memory") as broken:
        await stage.play()
    assert broken.value.reason == "memory"
    assert (stage.run.outcome() or {})["reason"] == "memory" and stage.told("run_failed")[0]["reason"] == "memory"
    stage.script([], [says("Done.")], [reading("a1")])
    assert (await stage.play()).best == "a1" and stage.executor.judged.count(stage.run.attempt("a1").kernel_id) == 2


# --- how it ends for a person -----------------------------------------------------------------------------------------


def test_each_reason_has_words_and_a_broken_run_an_exit_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"disk", "judge", "memory", "state"} <= STOP_WORDS.keys()
    for error, code in (
        (RunBroken("disk", "can't write x: the disk is full", "Free some space."), BROKEN),
        (InfrastructureError("no toolchain", ""), FAILED),
    ):
        with pytest.raises(SystemExit) as ended, guarded(debug=False):
            raise error
        assert ended.value.code == code
    assert "the disk is full" in capsys.readouterr().err
