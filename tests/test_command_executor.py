"""Judging behind a command: the same records as on this machine, and everything that can happen to a connection."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_tasks import ASLEEP, ENDLESS, HONEST, SAXPY, SLOW, WRONG, cpp, saxpy

from tools import job_process, worker_process
from tools.errors import InfrastructureError, TaskError, WarpsmithError
from tools.executor import CommandExecutor, Executor, LocalExecutor, executor_for
from tools.process import descendants, is_running
from tools.records import Accepted, Rejected
from tools.tune import tune

ROOT = Path(__file__).resolve().parent.parent
HOST = Path(__file__).with_name("far_host.py")
WORKER = (sys.executable, "-P", "-m", "tools.jobs")
WORKER_TEXT = shlex.join(WORKER)
GREETING = '{"v": 1, "id": "hello", "ok": true, "result": {}}'


@dataclass(frozen=True)
class FarHost:
    """A host whose processes are not below the command that reaches it."""

    process: int
    reach: tuple[str, ...]
    """What goes before a command that is to run there."""


@pytest.fixture(autouse=True)
def _tools_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def far_host(tmp_path: Path) -> Iterator[FarHost]:
    """It must be left empty."""
    door = tmp_path / "door"
    host = subprocess.Popen([sys.executable, "-P", HOST, "serve", door])
    while not door.exists():
        assert host.poll() is None
        time.sleep(0.01)
    yield FarHost(host.pid, (sys.executable, "-P", str(HOST), "run", str(door)))
    left = [pid for pid in descendants(host.pid) if is_running(pid)]
    for pid in (*left, host.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    host.wait()
    assert not left, "something was left running on the far host"


def shell(script: str) -> CommandExecutor:
    return CommandExecutor(["sh", "-c", script])


def command_of(executor: CommandExecutor) -> int:
    assert executor._service is not None
    return executor._service._process.pid


def below(pid: int, word: str) -> list[int]:
    """Processes below `pid` whose command line has `word`."""
    found = []
    for child in descendants(pid):
        with contextlib.suppress(OSError):
            if word in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
                found.append(child)
    return found


async def until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, [pid for pid in pids if is_running(pid)]
        await asyncio.sleep(0.01)


async def endless_job(executor: CommandExecutor, stages: list[str]) -> asyncio.Task[object]:
    """A job that never ends, once its kernel runs. `stages` is what the executor reports to."""
    await executor.open(saxpy())
    stages.clear()
    job: asyncio.Task[object] = asyncio.create_task(executor.evaluate(saxpy(), cpp(ENDLESS)))
    while "correct" not in stages:
        assert not job.done()
        await asyncio.sleep(0.01)
    return job


async def sleeping_job(executor: CommandExecutor, stages: list[str]) -> asyncio.Task[object]:
    """A job that never ends and uses no core, once it has begun."""
    job: asyncio.Task[object] = asyncio.create_task(executor.open(saxpy(files={"saxpy.py": ASLEEP})))
    while "reference" not in stages:
        assert not job.done()
        await asyncio.sleep(0.01)
    return job


async def test_every_operation_gives_the_records_that_the_local_one_gives() -> None:
    stages: list[str] = []
    kernel = cpp("// tune: STEP = 1,2\n" + HONEST.replace("++i", "i += 1"))
    async with CommandExecutor(WORKER, stages.append) as far, LocalExecutor() as near:
        facts, here = await far.open(saxpy()), await near.open(saxpy())
        assert (facts.task, facts.header, facts.sandbox) == (here.task, here.header, here.sandbox)
        built = await far.build(saxpy(), kernel)
        assert built.built and built.command == (await near.build(saxpy(), kernel)).command
        assert isinstance(await far.evaluate(saxpy(), kernel), Accepted)
        wrong = await far.evaluate(saxpy(), cpp(WRONG))
        assert isinstance(wrong, Rejected) and wrong.reason == "wrong_result" and wrong.mismatch
        results = await far.quick(saxpy(), [kernel, cpp(WRONG), cpp(SLOW)], kernel)
        assert [result.status for result in results] == ["timed", "rejected", "timed"]
        profile = await far.profile(saxpy(), kernel, "odd")
        assert profile.workload == "odd" and profile.kernel == kernel.id
        report = await tune(far, saxpy(), kernel, trials=2)
        assert report.trials
    assert set(stages) >= {"reference", "baseline", "build", "correct", "time"}


async def test_errors_arrive_as_on_this_machine() -> None:
    async with CommandExecutor(WORKER) as executor:
        deadly = SAXPY.replace("    return 2 * x + y", "    import os\n    os._exit(3)")
        with pytest.raises(TaskError) as ended:
            await executor.open(saxpy(files={"saxpy.py": deadly}))
        assert ended.value.fault == "raised" and "exit code 3" in ended.value.message
        with pytest.raises(WarpsmithError, match="not allowed"):
            await executor.build(saxpy(), cpp(HONEST).model_copy(update={"flags": ("-include/etc/passwd",)}))


@pytest.mark.parametrize(
    "said", ["Welcome to gpu1!", "[1, 2]", '{"v": 1, "id": 7}', '{"v": 1, "id": "1", "ok": false}']
)
async def test_garbage_before_the_first_answer_is_reported_at_once(said: str) -> None:
    async with shell(f"echo {shlex.quote(said)}; exec {WORKER_TEXT}") as executor:
        with pytest.raises(InfrastructureError) as caught:
            await executor.build(saxpy(), cpp(HONEST))
        assert said[:8] in caught.value.message
        assert caught.value.advice


async def test_garbage_in_the_middle_is_never_a_verdict_and_the_job_is_sent_again(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    once = f"if test -e {seen}; then exec {WORKER_TEXT}; fi; touch {seen}; {WORKER_TEXT} | (read -r l; echo $l; echo x)"
    async with shell(once) as executor:
        assert isinstance(await executor.evaluate(saxpy(), cpp(HONEST)), Accepted)
    async with shell(f"{WORKER_TEXT} | (read -r line; echo $line; echo '{{\"v\": 1,'; cat)") as executor:
        with pytest.raises(InfrastructureError, match="no JSON object"):
            await executor.evaluate(saxpy(), cpp(HONEST))


async def test_another_version_is_reported_at_once_and_says_what_to_do(tmp_path: Path) -> None:
    counted = tmp_path / "starts"
    other = '{"v": 2, "id": "hello", "ok": true, "result": {}}'
    async with shell(f"echo x >> {counted}; read -r line; echo '{other}'; cat > /dev/null") as executor:
        with pytest.raises(InfrastructureError, match="version 2") as caught:
            await executor.build(saxpy(), cpp(HONEST))
    assert "same warpsmith" in caught.value.advice
    assert counted.read_text() == "x\n"


@pytest.mark.parametrize(
    "answer", ['{"status": "accepted"}', "null", '{"kernel": "0", "built": true, "seconds": 1, "command": []}']
)
async def test_a_result_of_another_shape_or_kernel_is_an_infrastructure_failure(answer: str) -> None:
    result = f'{{"v": 1, "id": "1", "ok": true, "result": {answer}}}'
    script = f"read -r line; echo '{GREETING}'; read -r line; echo '{result}'; cat"
    async with shell(script) as executor:
        with pytest.raises(InfrastructureError, match="an answer of the judge"):
            await executor.build(saxpy(), cpp(HONEST))


@pytest.mark.parametrize("then", ["exec sleep 600", "while :; do echo chatter >&2; sleep 0.1; done"])
async def test_a_worker_that_gives_no_sign_of_life_is_given_up(then: str) -> None:
    silent = CommandExecutor(["sh", "-c", f"read -r line; echo '{GREETING}'; {then}"], silence=0.5)
    silent._attempts = 1
    async with silent:
        with pytest.raises(InfrastructureError, match=r"silent for 0\.5 s"):
            await silent.build(saxpy(), cpp(HONEST))


@pytest.mark.parametrize(("before", "starts"), [(":", 1), (f"read -r line; echo '{GREETING}'", 3)])
async def test_a_command_that_closes_its_output_and_runs_on_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, starts: int
) -> None:
    """Before it greets that is reported at once, as garbage is; never as the signal by which we end it."""
    monkeypatch.setattr(job_process, "CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(worker_process, "END_SECONDS", 0.2)
    counted = tmp_path / "starts"
    executor = shell(f"echo x >> {counted}; {before}; read -r line; exec >&-; exec sleep 600")
    executor._pause = 0.01
    async with executor:
        with pytest.raises(InfrastructureError, match="it closed its standard output and ran on") as caught:
            await executor.build(saxpy(), cpp(HONEST))
    assert "signal" not in caught.value.message and "by hand" in caught.value.advice
    assert counted.read_text() == "x\n" * starts


async def test_a_stopped_worker_is_replaced_and_one_that_works_for_long_is_not() -> None:
    stages: list[str] = []
    async with CommandExecutor(WORKER, stages.append, silence=2.0) as executor:
        job = await sleeping_job(executor, stages)
        worker = command_of(executor)
        await asyncio.sleep(3.0)  # it says no stage all this time, but shows life
        assert not job.done() and command_of(executor) == worker
        started = descendants(worker)
        os.kill(worker, signal.SIGSTOP)
        job.cancel()
        build = await executor.build(saxpy(), cpp(HONEST))
        assert build.built and command_of(executor) != worker
        with pytest.raises(asyncio.CancelledError):
            await job
        await until_gone([worker, *started])


async def test_a_command_that_never_reaches_a_worker_is_given_up() -> None:
    async with CommandExecutor(["sleep", "60"], patience=0.3) as executor:
        with pytest.raises(InfrastructureError, match=r"within 0\.3 s"):
            await executor.build(saxpy(), cpp(HONEST))
    for argv, said in (
        (["/nonexistent/ssh"], "No such file"),
        (["sh", "-c", "echo no route >&2; exit 255"], "no route"),
    ):
        broken = CommandExecutor(argv)
        broken._pause = 0.01
        async with broken:
            with pytest.raises(InfrastructureError, match=said):
                await broken.build(saxpy(), cpp(HONEST))


@pytest.mark.parametrize("proxy", [0, 1])
async def test_a_pipe_that_breaks_in_the_middle_of_a_job_is_mended_by_a_new_connection(proxy: int) -> None:
    pipes = ["sh", "-c", f"cat | {WORKER_TEXT} | cat; exit 7"]
    async with CommandExecutor(pipes, silence=3.0) as executor:  # the shell waits for a cat that waits for us
        await executor.open(saxpy())
        first = command_of(executor)
        job = asyncio.create_task(executor.evaluate(saxpy(), cpp(HONEST)))
        await asyncio.sleep(0.05)
        started = descendants(first)
        os.kill(below(first, "cat")[proxy], signal.SIGKILL)
        assert isinstance(await job, Accepted)
        assert command_of(executor) != first
        await until_gone([first, *started])


async def test_a_worker_that_is_killed_leaves_nothing_and_is_replaced(far_host: FarHost) -> None:
    stages: list[str] = []
    async with CommandExecutor([*far_host.reach, *WORKER], stages.append) as executor:
        job = await endless_job(executor, stages)
        (worker,) = below(far_host.process, "tools.jobs")
        started = descendants(worker)
        os.kill(worker, signal.SIGKILL)
        await until_gone(started)
        verdict = await job
        assert isinstance(verdict, Rejected) and verdict.reason == "timeout"  # by the worker that took its place


async def test_cancelling_ends_the_far_job_alone(far_host: FarHost) -> None:
    stages: list[str] = []
    async with CommandExecutor([*far_host.reach, *WORKER], stages.append) as executor:
        job = await sleeping_job(executor, stages)
        connection = command_of(executor)
        waiting = asyncio.create_task(executor.build(saxpy(), cpp(HONEST)))
        await asyncio.sleep(0)  # it is asked for
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert (await waiting).built
        assert command_of(executor) == connection  # neither the worker nor the connection had to go


@pytest.mark.parametrize("how", ["close", "SIGKILL"])
async def test_the_end_of_the_connection_ends_everything_on_the_far_side(far_host: FarHost, how: str) -> None:
    stages: list[str] = []
    executor = CommandExecutor([*far_host.reach, *WORKER], stages.append)
    executor._attempts = 1
    job = await endless_job(executor, stages)
    (worker,) = below(far_host.process, "tools.jobs")
    far = [worker, *descendants(worker)]
    assert len(far) > 2 and not set(far) & set(descendants(command_of(executor)))
    if how == "SIGKILL":
        os.kill(command_of(executor), signal.SIGKILL)
    else:
        await executor.close()
    with pytest.raises(InfrastructureError):
        await job
    await until_gone(far)
    await executor.close()


async def test_answers_find_their_jobs_in_any_order() -> None:
    """A far side that hands over the answers to four builds last first."""
    reverse = (
        "import json, subprocess, sys\n"
        f"worker = subprocess.Popen({list(WORKER)!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "def ask(n):\n"
        "    for _ in range(n): worker.stdin.write(sys.stdin.buffer.readline())\n"
        "    worker.stdin.flush()\n"
        "    return [worker.stdout.readline() for _ in range(n)]\n"
        "for count in (1, 4):\n"
        "    sys.stdout.buffer.writelines(reversed(ask(count)))\n"
        "    sys.stdout.buffer.flush()\n"
        "sys.stdin.buffer.read()\n"
    )
    kernels = [cpp(f"{HONEST}// {number}\n") for number in range(4)]
    async with CommandExecutor([sys.executable, "-P", "-c", reverse]) as executor:
        reports = await asyncio.gather(*(executor.build(saxpy(), kernel) for kernel in kernels))
    assert [report.kernel for report in reports] == [kernel.id for kernel in kernels]


async def test_two_executors_at_once_each_get_their_own_verdicts(far_host: FarHost) -> None:
    async with CommandExecutor(WORKER) as one, CommandExecutor([*far_host.reach, *WORKER]) as other:
        kernels = cpp(HONEST), cpp(SLOW)
        executors: tuple[Executor, Executor] = (one, other)
        verdicts = await asyncio.gather(
            *(executor.evaluate(saxpy(), kernel) for executor, kernel in zip(executors, kernels, strict=True))
        )
    assert [verdict.kernel for verdict in verdicts] == [kernel.id for kernel in kernels]
    fast, slow = verdicts
    assert isinstance(fast, Accepted) and isinstance(slow, Accepted) and slow.seconds > 3 * fast.seconds


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap makes the other host")
async def test_a_host_with_process_ids_and_a_network_of_its_own() -> None:
    host = ["bwrap", "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    if subprocess.run([*host, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("bubblewrap does not work here")
    stages: list[str] = []
    async with CommandExecutor([*host, "--hostname", "gpu1", *WORKER], stages.append) as executor:
        assert isinstance(await executor.evaluate(saxpy(), cpp(HONEST)), Accepted)
        job = await endless_job(executor, stages)
        started = descendants(command_of(executor))
        job.cancel()
        await executor.close()
        await until_gone(started)


@pytest.mark.parametrize("spec", ["ssh:gpu1", "command:", "command: ", "command:sh -c 'open", ""])
def test_a_spec_that_names_no_executor_is_an_error_with_advice(spec: str) -> None:
    with pytest.raises(WarpsmithError) as caught:
        executor_for(spec)
    assert "command:" in caught.value.advice


def test_a_spec_names_an_executor() -> None:
    assert isinstance(executor_for("local"), LocalExecutor)
    assert isinstance(executor_for("command:ssh -o 'BatchMode yes' gpu1 warpsmith worker"), CommandExecutor)


@pytest.mark.slow
def test_optimize_check_and_profile_go_through_the_command(tmp_path: Path) -> None:
    task = tmp_path / "saxpy.py"
    task.write_text(SAXPY)
    task.with_suffix(".cpp").write_text("// tune: STEP = 1,2\n" + HONEST)
    log = tmp_path / "log"
    spec = f"command:sh -c 'echo started >> {log}; exec {WORKER_TEXT}'"
    for arguments in (
        ["check", task, task.with_suffix(".cpp")],
        ["profile", task, task.with_suffix(".cpp")],
        ["optimize", task, "--iterations", "2", "--near-limit", "0", "--runs", tmp_path / "runs"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "app.start", *map(str, arguments), "--executor", spec, "--json"],
            cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert log.read_text() == "started\n" * 3
    (run,) = (tmp_path / "runs").iterdir()
    assert json.loads((run / "config.json").read_text())["executor"] == spec


def test_a_command_that_never_stops_talking_is_ended_and_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[object] = []

    async def ask() -> None:
        async with shell("exec yes") as executor:
            with pytest.raises(InfrastructureError, match="no JSON object"):
                await executor.build(saxpy(), cpp(HONEST))

    monkeypatch.setattr(job_process, "LINE_LIMIT", 1 << 16)
    monkeypatch.setattr(sys, "unraisablehook", left.append)
    asyncio.run(ask())
    gc.collect()
    assert left == []
