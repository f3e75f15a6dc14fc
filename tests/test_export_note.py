"""What a run's log says of exports: one line each, by whoever may write it, and never in the way of an export."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_model import says
from scripted_run import Stage, judge, proposal, reading, set_up
from test_disk import UNSHARE, mounts_work
from test_export_kernel import TASKS, run_of

from agents.events import Event, Journal
from agents.export_note import note_export
from agents.settings import Budgets, RunSettings
from agents.steering_actions import Exported
from agents.steering_box import BOX, give
from agents.steering_limits import AtLimit
from app.following import watch
from app.log_lines import log_line
from app.report import render
from app.session.story import Story
from memory.runs import RunFolder
from memory.tail import Tail
from tests.test_cli import command
from tools.task import read_task

SAID = "accepted again: 1.00 ms, 50 % of the limit"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = set_up(tmp_path, monkeypatch)
    made.script(
        [proposal("wider"), proposal("wider still")],
        [judge(64), says("ok"), judge(128), says("ok")],
        [reading("a1"), reading("a2")],
    )
    return made


def export(folder: str = "/out") -> Exported:
    return Exported(attempt="a0", form="sources", folder=folder, status="accepted", said=SAID)


def told(run: RunFolder) -> list[dict[str, Any]]:
    return [line for line in run.events() if line["event"] == "exported"]


async def test_a_run_that_nobody_works_on_is_told_of_at_once_and_goes_on_as_before(stage: Stage) -> None:
    await stage.play()
    before = len(stage.run.events())
    assert note_export(stage.run.path, "stub", export()) is None
    (line,) = told(stage.run)
    assert (line["run"], line["attempt"], line["form"], line["said"]) == (stage.run.id, "a0", "sources", SAID)
    assert len(stage.run.events()) == before + 1 and not (stage.run.path / BOX).exists()
    assert f"a0 was exported as sources: {SAID}, in /out" in log_line(line)
    with Tail(stage.run.path / "events.jsonl") as tail:
        slept: list[float] = []
        how = watch(tail, lambda _: None, sleep=slept.append, now=lambda: 1.0 * len(slept))
        assert how == "ended", "it says nothing of how the run stands"
    page = render(RunFolder(stage.run.path))
    assert SAID in page and "<code>/out</code>" in page
    story = Story()
    for event in stage.run.events():
        story.take(event)
    assert story.state == "ended" and [each.words for each in story.exports] == [f"a0 as sources: {SAID}, in /out"]
    await stage.play(iterations=2)
    kinds = [line["event"] for line in stage.run.events()]
    assert kinds.count("exported") == 1 and kinds.count("iteration_ended") == 2 and kinds[-1] == "run_ended"


async def test_the_process_that_works_on_the_run_writes_it_down(stage: Stage) -> None:
    """Given while a model is asked, so long before the run ends."""

    def line(_: object) -> Any:
        give(stage.run.path, export())
        return proposal("wider")

    stage.script(
        [line, proposal("wider still")],
        [judge(64), says("ok"), judge(128), says("ok")],
        [reading("a1"), reading("a2")],
    )
    await stage.play()
    (event,) = stage.told("exported")
    assert event["folder"] == "/out" and len(told(stage.run)) == 1
    kinds = [line["event"] for line in stage.run.events()]
    assert kinds.index("exported") < kinds.index("run_ended")


async def test_who_exports_while_the_run_ends_leaves_one_line(stage: Stage) -> None:
    """Some are written by the run's process, and what it did not come to by who exports."""
    noting: list[threading.Thread] = []
    said: list[str | None] = []

    def note(folder: str) -> None:
        said.append(note_export(stage.run.path, "stub", export(folder)))

    def line(_: object) -> Any:
        noting.extend(threading.Thread(target=note, args=(f"/out{number}",)) for number in range(4))
        for thread in noting:
            thread.start()
        return proposal("wider")

    stage.script(
        [line, proposal("wider still")],
        [judge(64), says("ok"), judge(128), says("ok")],
        [reading("a1"), reading("a2")],
    )
    await stage.play()
    for thread in noting:
        thread.join()
    assert said == [None] * 4
    assert sorted(line["folder"] for line in told(stage.run)) == [f"/out{number}" for number in range(4)]
    await stage.play(iterations=2)
    assert len(told(stage.run)) == 4, "what was given is not heeded again"


async def test_a_run_that_waits_at_its_limit_tells_of_it_too(stage: Stage) -> None:
    await stage.play()
    give(stage.run.path, export())
    heard: list[Event] = []
    settings = RunSettings(budgets=Budgets(iterations=1))
    with Journal(stage.run.path / "events.jsonl", heard.append) as journal:
        for _ in range(2):  # and the next that waits there does not tell again
            with AtLimit(stage.run, settings, "iterations", journal) as waits:
                assert waits.look() is None
    assert [event.event for event in heard] == ["exported"]


def _no_log(folder: Path) -> None:
    (folder / "events.jsonl").unlink()


def _log_is_a_folder(folder: Path) -> None:
    (folder / "events.jsonl").unlink()
    (folder / "events.jsonl").mkdir()


def _lock_is_a_folder(folder: Path) -> None:
    (folder / "run.lock").unlink(missing_ok=True)
    (folder / "run.lock").mkdir()


@pytest.mark.parametrize("damage", [_no_log, _log_is_a_folder, _lock_is_a_folder])
def test_a_damaged_folder_fails_no_export(
    tmp_path: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    from app.export_kernel import Wanted, export_kernel

    run = exportable(tmp_path)
    damage(run.path)
    for number, as_json in enumerate((True, False)):
        out = tmp_path / f"out{number}"
        wanted = Wanted(run=str(run.path), attempt=None, form="sources", out=out, check=False, executor="local")
        assert export_kernel(wanted, tmp_path, as_json) == 0 and (out / "kernel.cpp").is_file()
        said = capsys.readouterr().out
        assert json.loads(said)["unnoted"] if as_json else "not noted in the run's log: " in said


@pytest.mark.skipif(not mounts_work(), reason="this machine lets nobody mount in a namespace")
def test_a_read_only_folder_fails_no_export(tmp_path: Path) -> None:
    run = exportable(tmp_path)
    arguments = command("export", run.path, "--out", tmp_path / "out", "--no-check", "--json")
    shown = shlex.quote(str(run.path))
    script = f"mount --bind {shown} {shown} && mount -o remount,ro,bind {shown} && {shlex.join(arguments)}"
    done = subprocess.run([*UNSHARE, "sh", "-c", script], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert "ead-only" in answer["unnoted"] and (tmp_path / "out/kernel.cpp").is_file()
    assert told(run) == []


def exportable(tmp_path: Path) -> RunFolder:
    task = read_task(TASKS / "saxpy.py")
    run = run_of(tmp_path / "runs", task, task.start["cpp"])
    (run.path / "events.jsonl").touch()
    return run
