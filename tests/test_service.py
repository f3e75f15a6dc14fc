"""The judge's process on its own: the protocol, its errors, and its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_tasks import ENDLESS, HONEST, SAXPY, cpp, saxpy

from tools.process import descendants, is_running

ROOT = Path(__file__).resolve().parent.parent


class Talk:
    """A service and the two ends of its pipes."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tools.service"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )

    def send(self, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"v": 1, **request}).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def talk() -> Iterator[Talk]:
    talk = Talk()
    yield talk
    if talk.process.poll() is None:
        talk.process.kill()
    talk.close()


def plain(record: Any) -> Any:
    return record.model_dump(mode="json")


def test_answers_carry_the_request_s_id_and_errors_their_kind(talk: Talk) -> None:
    task = plain(saxpy())
    talk.send(id="a", op="open", task=task)
    talk.send(id="b", op="build", task=task, kernel=plain(cpp("int x = ;")))
    talk.send(id="c", op="build", task=task, kernel=plain(cpp(HONEST)) | {"flags": ["-fplugin=x"]})
    talk.send(id="d", op="open", task=plain(saxpy(files={"saxpy.py": SAXPY.replace("2 * x + y", "2 * x + z")})))
    talk.send(id="e", op="dance", task=task)
    answers = [talk.receive() for _ in range(5)]
    assert [answer["id"] for answer in answers] == list("abcde")
    assert all(answer["v"] == 1 for answer in answers)
    assert answers[0]["result"]["task"]
    assert answers[1]["ok"]
    assert answers[1]["result"]["built"] is False
    assert [answer["error"]["kind"] for answer in answers[2:]] == ["kernel", "task", "infrastructure"]
    assert answers[3]["error"]["fault"] == "raised"
    assert "saxpy.py:8" in answers[3]["error"]["message"]


def test_what_the_task_prints_and_reads_does_not_reach_the_channel(talk: Talk) -> None:
    noisy = "import os, sys\nprint('{\"v\": 1}')\nos.write(1, b'more\\n')\nassert sys.stdin.read() == ''\n" + SAXPY
    talk.send(id="1", op="open", task=plain(saxpy(files={"saxpy.py": noisy})))
    assert talk.receive()["ok"]


def test_a_request_taken_back_before_it_begins_is_not_done(talk: Talk) -> None:
    task = plain(saxpy())
    talk.send(id="1", op="open", task=task)
    talk.send(id="2", op="evaluate", task=task, kernel=plain(cpp(HONEST)))
    talk.send(id="2", op="cancel")
    assert talk.receive()["ok"]
    answer = talk.receive()
    assert (answer["id"], answer["ok"], answer["error"]["kind"]) == ("2", False, "cancelled")


def test_the_end_of_stdin_ends_it_and_all_it_started_in_the_middle_of_a_job(talk: Talk) -> None:
    task = plain(saxpy())
    talk.send(id="1", op="open", task=task)
    assert talk.receive()["ok"]
    idle = len(descendants(talk.process.pid))
    talk.send(id="2", op="evaluate", task=task, kernel=plain(cpp(ENDLESS)))
    deadline = time.monotonic() + 60
    while len(descendants(talk.process.pid)) <= idle or not _spins(talk.process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    started = descendants(talk.process.pid)
    talk.close()
    assert talk.process.returncode == 0
    deadline = time.monotonic() + 5
    while any(is_running(pid) for pid in started):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _spins(pid: int) -> bool:
    """Whether a worker below `pid` is running code."""
    names = []
    for child in descendants(pid):
        try:
            stat = Path(f"/proc/{child}/stat").read_text()
        except OSError:
            continue
        names.append(stat.split("(")[1].split(")")[0] == "worker" and stat.rpartition(")")[2].split()[0] == "R")
    return any(names)


def test_it_dies_with_its_parent() -> None:
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-P', '-m', 'tools.service'], stdin=subprocess.PIPE,"
        " start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-P", "-c", script], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_running(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while is_running(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)
