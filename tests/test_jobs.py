"""`warpsmith worker` from its own side: sessions, batches, lines that are no jobs, and its end."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_tasks import ASLEEP, ENDLESS, HONEST, SAXPY, cpp, saxpy

from tools.jobs import Outlet, Worker
from tools.process import descendants, is_running
from tools.protocol import Job

ROOT = Path(__file__).resolve().parent.parent
WORKER = [sys.executable, "-P", "-m", "tools.jobs"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
FEW = {"annotated_types", "ml_dtypes", "numpy", "psutil", "pydantic", "pydantic_core", "tools"}
FEW |= {"typing_extensions", "typing_inspection"}


class Session:
    """A worker and the three ends of its pipes."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            WORKER, stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT, start_new_session=True
        )

    def send(self, **message: Any) -> None:
        self.say(json.dumps({"v": 1} | message))

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def wait_for_stage(self, job: str | None, stage: str) -> None:
        assert self.process.stderr is not None
        while (line := self.process.stderr.readline()) and (
            (sign := json.loads(line))["id"] != job or sign["stage"] != stage
        ):
            pass
        assert line, "the worker has ended"

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session()
    with session.process:
        yield session
        session.process.kill()


def line(job: str, op: str = "build", text: str = HONEST, **fields: Any) -> str:
    kernel = None if op == "open" else cpp(text)
    message = Job.model_validate({"id": job, "op": op, "task": saxpy(**fields), "kernel": kernel}).message()
    return json.dumps(message)


SLOW = line("slow", "open", files={"saxpy.py": ASLEEP})


def batch(text: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        WORKER, input=text.encode(), capture_output=True, env=ENVIRONMENT, timeout=120, check=False, **how
    )


def answers_of(output: bytes) -> dict[str | None, dict[str, Any]]:
    return {answer["id"]: answer for answer in map(json.loads, output.splitlines())}


def wait_until_gone(pids: list[int], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, [pid for pid in pids if is_running(pid)]
        time.sleep(0.01)


def test_a_batch_from_a_file_to_a_file_is_done_to_its_end(tmp_path: Path) -> None:
    jobs, results = tmp_path / "jobs.jsonl", tmp_path / "results.jsonl"
    jobs.write_text("\n".join([line("facts", "open"), line("one"), line("two", text="int x = ;"), ""]))
    with jobs.open() as stdin, results.open("w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "app.start", "worker"],
            stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = answers_of(results.read_bytes())
    assert {job: answer["ok"] for job, answer in answers.items()} == {"facts": True, "one": True, "two": True}
    assert [answers[job]["result"]["built"] for job in ("one", "two")] == [True, False]
    assert all(answer["v"] == 1 for answer in answers.values())
    stages = [json.loads(said) for said in done.stderr.splitlines()]
    assert {"facts", "one", "two"} == {sign["id"] for sign in stages} and "baseline" in {s["stage"] for s in stages}


def test_more_jobs_than_are_read_ahead_are_all_answered_once() -> None:
    names = [f"job {number}" for number in range(150)]
    done = batch("\n".join(json.dumps({"v": 1, "id": name, "op": "dance"}) for name in names))
    assert sorted(json.loads(said)["id"] for said in done.stdout.splitlines()) == sorted(names)


def test_what_is_no_job_is_answered_with_what_is_wrong_and_harms_no_other() -> None:
    lines = [
        "garbage",
        '["a list"]',
        json.dumps({"v": 2, "id": "future", "op": "build"}),
        json.dumps({"v": 1, "id": "dance", "op": "dance"}),
        json.dumps(json.loads(line("more")) | {"colour": "red"}),
        json.dumps({key: value for key, value in json.loads(line("less")).items() if key != "kernel"}),
        json.dumps(json.loads(line("half")) | {"kernel": {"language": "cpp", "files": {"kernel.cpp": "\ud800"}}}),
        line("good"),
        "",
    ]
    done = batch("\n".join(lines))
    assert done.returncode == 1
    answers = answers_of(done.stdout)
    assert answers["good"]["result"]["built"]
    said = {job: answer["error"]["message"] for job, answer in answers.items() if not answer["ok"]}
    assert set(said) == {None, "future", "dance", "more", "less", "half"}
    assert "line 2" in said[None]
    assert "version 2" in said["future"] and "'dance'" not in said["future"]
    assert "colour" in said["more"] and "kernel" in said["less"] and "op" in said["dance"]
    assert "surrogate" in said["half"]
    assert {answer["error"]["kind"] for answer in answers.values() if not answer["ok"]} == {"infrastructure"}


def test_one_task_that_kills_its_judge_costs_no_other_job_anything() -> None:
    deadly = SAXPY.replace("    return 2 * x + y", "    import os\n    os._exit(3)")
    jobs = [line(f"deadly {n}", "open", files={"saxpy.py": f"{deadly}# {n}\n"}) for n in range(3)]
    done = batch("\n".join([*jobs[:2], line("good"), jobs[2], line("fine", "open")]))
    answers = answers_of(done.stdout)
    assert answers["good"]["result"]["built"] and answers["fine"]["ok"]
    for number in range(3):
        error = answers[f"deadly {number}"]["error"]
        assert (error["kind"], error["fault"]) == ("task", "raised")


def test_answers_that_can_not_be_written_end_it_with_a_reason() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            WORKER, input=line("one").encode(), stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False
        )
    assert done.returncode == 2
    assert b"No space left" in done.stderr


def test_a_reader_that_goes_away_ends_it_and_all_it_started(session: Session) -> None:
    session.send(id="h", op="hello")
    assert session.receive()["ok"]
    session.say(line("endless", "evaluate", ENDLESS))
    session.wait_for_stage("endless", "correct")
    started = descendants(session.process.pid)
    assert session.process.stdout is not None
    session.process.stdout.close()
    session.send(id="again", op="hello")
    assert session.process.wait(20) == 2
    wait_until_gone(started)


def test_a_greeting_says_who_is_there_and_a_driver_of_another_version_is_told(session: Session) -> None:
    session.send(id="h", op="hello")
    here = session.receive()
    assert here["ok"] and here["result"]["versions"] == [1] and here["result"]["process"] == session.process.pid
    session.say(json.dumps({"v": 7, "id": "h2", "op": "hello"}))
    refused = session.receive()
    assert (refused["v"], refused["id"], refused["ok"]) == (1, "h2", False)
    assert "version 7" in refused["error"]["message"]


@pytest.mark.parametrize("before", [[line("one"), line("two", text="int x = ;")], ["garbage", line("one")]])
def test_a_greeting_amid_a_batch_costs_no_job_its_answer(before: list[str]) -> None:
    greeting = json.dumps({"v": 1, "id": "h", "op": "hello"})
    done = batch("\n".join([*before, greeting, line("last"), ""]))
    answers = answers_of(done.stdout)
    assert (done.returncode, len(answers)) == (1, len(before) + 2)
    assert answers["last"]["ok"] and answers["one"]["ok"]
    assert answers["h"]["error"]["fault"] == "protocol" and "first line" in answers["h"]["error"]["message"]


def test_blank_lines_may_go_before_a_greeting(session: Session) -> None:
    session.say("")
    session.send(id="h", op="hello")
    assert session.receive()["ok"]


def test_answers_come_in_the_order_in_which_they_are_ready(session: Session) -> None:
    session.send(id="h", op="hello")
    session.receive()
    session.say(SLOW)
    session.wait_for_stage("slow", "reference")
    session.say(line("behind it"))
    session.say(SLOW)  # an id in flight
    session.send(id="wrong", op="dance")
    session.send(id="behind it", op="cancel")
    answers = [session.receive() for _ in range(3)]
    assert [answer["id"] for answer in answers] == ["slow", "wrong", "behind it"]
    assert "in flight" in answers[0]["error"]["message"] and answers[2]["error"]["kind"] == "cancelled"
    session.send(id="slow", op="cancel")
    last = session.receive()
    assert (last["id"], last["error"]["kind"]) == ("slow", "cancelled")
    session.say(line("after"))
    assert session.receive()["result"]["built"]


@pytest.mark.parametrize("steps_before", [0, 1, 2, 3, 20])
def test_a_job_that_is_taken_back_is_answered_once_however_soon_that_is(steps_before: int) -> None:
    """Also before the job's task has made its first step."""

    async def serve(output: io.BytesIO) -> int:
        def unexpected(why: object) -> None:
            raise AssertionError(why)

        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        outlet, room = Outlet(output, unexpected), threading.Semaphore(0)
        worker = Worker(outlet, Outlet(io.BytesIO(), unexpected), room, unexpected)
        serving = asyncio.create_task(worker.serve(lines))
        lines.put_nowait(SLOW.encode())
        for _ in range(steps_before):
            await asyncio.sleep(0)
        lines.put_nowait(json.dumps({"v": 1, "id": "slow", "op": "cancel"}).encode())
        lines.put_nowait(None)
        assert await serving == 1
        await worker.end()
        await asyncio.to_thread(outlet.finish, 10)
        return sum(iter(lambda: room.acquire(blocking=False), False))

    output = io.BytesIO()
    assert asyncio.run(serve(output)) == 2, "the room of both lines is given back"
    (answer,) = map(json.loads, output.getvalue().splitlines())
    assert (answer["id"], answer["error"]["kind"]) == ("slow", "cancelled")


def test_it_shows_life_while_a_job_says_nothing(session: Session) -> None:
    session.send(id="h", op="hello", heartbeat=0.05)
    session.say(SLOW)
    session.wait_for_stage("slow", "reference")
    session.wait_for_stage(None, "alive")
    session.wait_for_stage(None, "alive")


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_its_end_is_the_end_of_everything_it_started(session: Session, how: str) -> None:
    session.send(id="h", op="hello")
    session.say(line("endless", "evaluate", ENDLESS))
    session.wait_for_stage("endless", "correct")
    started = descendants(session.process.pid)
    assert len(started) >= 2
    if how == "end of stdin":
        session.close()
    else:
        session.process.send_signal(getattr(signal, how))
    code = session.process.wait(20)
    expected = {"end of stdin": 0, "SIGKILL": -9}.get(how, 128 + getattr(signal, how, 0))
    assert code == expected
    wait_until_gone(started)


def test_the_manual_s_example_works_and_its_table_has_every_field_of_a_job() -> None:
    manual = (ROOT / "docs" / "worker.md").read_text()
    example = manual.partition("<<'END'\n")[2].partition("END\n")[0]
    done = batch(example)
    assert done.returncode == 0 and answers_of(done.stdout)["build"]["result"]["built"], done.stdout
    table = manual.partition("**Job.**")[2].partition("**Answer.**")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(Job.model_fields)


@pytest.mark.parametrize("module", ["tools.jobs", "tools.service"])
def test_the_worker_s_side_needs_only_tools_and_few_packages(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "files = {n: getattr(m, '__file__', None) or '' for n, m in sys.modules.items() if '.' not in n}\n"
        f"print(*sorted(n for n, f in files.items() if 'site-packages' in f or f.startswith({str(ROOT)!r})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    found = {name for name in done.stdout.split() if not name.startswith(("__editable__", "_distutils_hack"))}
    assert found - {"_virtualenv"} <= FEW
    assert module != "tools.jobs" or not found & {"numpy", "ml_dtypes"}
