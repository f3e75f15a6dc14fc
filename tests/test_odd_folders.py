"""Run folders in which something is no plain file, or no JSON that can be read: nothing waits for it, or reads it for
ever, and it costs no page but its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from session_pilot import stub_run

from memory.files import RunFolderError, read_json
from memory.tail import Tail, event_in, read_events
from tests.dashboard import Dashboard, dashboard

DEEP = '{"a":' * 100_000
READ = (
    "config.json",
    "events.jsonl",
    "outcome.json",
    "facts.json",
    "attempts/a0/attempt.json",
    "attempts/a0/verdict.json",
)


def spoilt(path: Path, how: str) -> None:
    path.unlink(missing_ok=True)
    if how == "a pipe":
        os.mkfifo(path)
    elif how == "a device":
        path.symlink_to("/dev/zero")
    elif how == "a folder":
        path.mkdir()
    else:
        path.write_text(DEEP + "\n")


HOW = ("a pipe", "a device", "a folder", "too deep")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A run for each file that may be spoilt, and each way to do so."""
    root = tmp_path_factory.mktemp("odd")
    whole = asyncio.run(stub_run(root / "whole", iterations=1)).path
    for place, name in enumerate(READ):
        for number, how in enumerate(HOW):
            run = Path(shutil.copytree(whole, root / "runs" / f"run-{place}-{number}", symlinks=True))
            spoilt(run / name, how)
    shutil.copytree(whole, root / "runs" / "run-whole", symlinks=True)
    with dashboard(root / "runs") as site:
        yield site


def test_the_list_has_all_of_them(site: Dashboard) -> None:
    page = site.get("/")
    assert page.status == 200 and "run-whole" in page.text
    assert sum(f"run-{place}-" in page.text for place in range(len(READ))) >= len(READ) - 1


@pytest.mark.parametrize("place", range(len(READ)))
def test_each_page_answers(site: Dashboard, place: int) -> None:
    for number in range(len(HOW)):
        for page in ("", "/attempt/a0", "/report"):
            answer = site.get(f"/run/run-{place}-{number}{page}")
            assert answer.status in (200, 404, 422) or "no plain file" in answer.text


@pytest.mark.parametrize("how", HOW)
def test_what_can_not_be_read_is_told(tmp_path: Path, how: str) -> None:
    path = tmp_path / "file"
    spoilt(path, how)
    with pytest.raises(RunFolderError):
        read_json(path)
    assert event_in(DEEP) is None
    assert event_in('{"event": "x", "gain": 1' + "0" * 400 + "}") is None
    if how != "too deep":
        with pytest.raises(RunFolderError):
            read_events(path)
        with Tail(path) as tail, pytest.raises(RunFolderError):
            [*tail.lines()]


@pytest.mark.parametrize("command", ["show", "logs", "report"])
def test_a_command_answers(tmp_path: Path, command: str) -> None:
    run = asyncio.run(stub_run(tmp_path, iterations=1)).path
    spoilt(run / "events.jsonl", "a pipe")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "app.start", command, str(run)], check=False, capture_output=True, timeout=300
    )
    assert b"Traceback" not in done.stderr
