"""`warpsmith resume`: what is inherited, what changes, what is refused, and that one process works on a run."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import killed_run
import pytest
from crash_harness import same_run
from stub_executor import TASK, StubExecutor

from agents.drive import optimize
from agents.settings import Budgets, Models, RunSettings
from app import resume as resuming
from app.configuration import Asked
from app.inputs import find_run
from app.options import RunLimits
from app.resume import Request, resume_run
from memory.files import RunFolderError
from memory.lock import LOCK_NAME
from memory.runs import FORMAT, RunFolder
from tools.errors import InfrastructureError, WarpsmithError

ROOT = Path(__file__).parent
UNBOUNDED = Budgets(iterations=2, near_limit=None, patience=None)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of two iterations that has ended, and a judge that measures nothing for what follows."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("WARPSMITH_M", "WARPSMITH_F"))]:
        monkeypatch.delenv(name)
    return begin(tmp_path / "runs", RunSettings(budgets=UNBOUNDED))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> StubExecutor:
    executor = StubExecutor(killed_run.seconds_of)
    monkeypatch.setattr(resuming, "judged_at", lambda _, __: executor)
    return executor


def begin(root: Path, settings: RunSettings, **more: Any) -> RunFolder:
    """A run as `warpsmith optimize` leaves it."""
    config = {
        "version": version("warpsmith"),
        "command": ["warpsmith", "optimize", "stub"],
        "task_path": "stub",
        "executor": "local",
        "state": None,
        "task": TASK.model_dump(mode="json"),
        "settings": settings.model_dump(mode="json"),
        "endpoints": {},
    }
    run = RunFolder.create(root, "stub", config | more)
    asyncio.run(optimize(TASK, settings, run, StubExecutor(killed_run.seconds_of), lambda _: None))
    return RunFolder(run.path)


def asked(run: RunFolder, **more: Any) -> Request:
    limits = RunLimits(**{field.name: more.pop(field.name) for field in fields(RunLimits) if field.name in more})
    command = ("warpsmith", "resume")
    request = Request(run=str(run.path), runs=run.path.parent, asked=Asked(), command=command, limits=limits)
    return replace(request, **more)


def config_of(run: RunFolder) -> dict[str, Any]:
    return dict(RunFolder(run.path).config())


def told(run: RunFolder, kind: str) -> list[dict[str, Any]]:
    return [event for event in RunFolder(run.path).events() if event["event"] == kind]


def test_an_ended_run_goes_on_with_a_larger_limit(run: RunFolder, judge: StubExecutor, tmp_path: Path) -> None:
    assert resume_run(asked(run, iterations=4), as_json=False) == 0
    whole = begin(tmp_path / "whole", RunSettings(budgets=UNBOUNDED.model_copy(update={"iterations": 4})))
    same_run(run, whole)
    assert len(judge.judged) == 3, "two new kernels and the winner afresh"
    assert (RunFolder(run.path).outcome() or {})["iterations"] == 4 and (run.path / "report.html").exists()


def test_each_change_is_written_down_and_told(run: RunFolder, judge: StubExecutor) -> None:
    resume_run(asked(run, iterations=3), as_json=False)
    resume_run(asked(run, iterations=4, parallel=2, near_limit=1.0, wall_time="2h"), as_json=False)
    config = config_of(run)
    assert config["settings"]["budgets"]["iterations"] == 4 and config["settings"]["parallel"] == 2
    assert config["command"] == ["warpsmith", "optimize", "stub"], "what the run began with"
    first, second = (entry["changes"] for entry in config["history"])
    assert first == {"budgets.iterations": {"before": 2, "after": 3}}
    assert second["budgets.wall_time"] == {"before": None, "after": 7200.0} and second["parallel"]["after"] == 2
    assert [event["changes"] for event in told(run, "run_resumed")] == [first, second]


def test_what_is_not_asked_for_stays_whatever_the_surroundings_say(
    run: RunFolder, judge: StubExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "warpsmith.toml").write_text('[models]\ndefault = "openai:other"\nfallback = ["anthropic:m"]\n')
    monkeypatch.setenv("WARPSMITH_MAX_DOLLARS", "1")
    before = config_of(run)["settings"]
    resume_run(asked(run, iterations=3), as_json=False)
    after = config_of(run)["settings"]
    assert after["budgets"] == before["budgets"] | {"iterations": 3}
    assert {**after, "budgets": 0} == {**before, "budgets": 0, "models": after["models"]}
    assert Models.model_validate(after["models"]).of("coder") == ("builtin:autotune",)


def test_checkpoints_are_taken_back_out_of_a_database_that_is_gone(run: RunFolder, judge: StubExecutor) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    with pytest.raises(InfrastructureError, match="nobody"):
        resume_run(asked(run, iterations=3, state=nowhere), as_json=True)
    with pytest.raises(InfrastructureError, match="nobody"):
        resume_run(asked(run), as_json=True)
    assert resume_run(asked(run, state="folder"), as_json=True) == 0
    assert config_of(run)["state"] is None and (run.outcome() or {})["iterations"] == 3


def test_another_model_plays_from_now_on(run: RunFolder, judge: StubExecutor, tmp_path: Path) -> None:
    replay = tmp_path / "said.jsonl"
    replay.write_text(json.dumps({"role": "coder", "text": "Nobody asks for this."}) + "\n")
    models = Asked(analyst=f"replay:{replay}", fallback=("analyst=builtin:autotune",))
    resume_run(asked(run, iterations=3, asked=models), as_json=False)
    settings = RunSettings.model_validate(config_of(run)["settings"])
    assert settings.models.of("analyst") == (f"replay:{replay}", "builtin:autotune")
    assert settings.models.of("planner") == ("builtin:autotune",)
    assert {event["model"] for event in told(run, "model_called")} == {"builtin:autotune"}
    changes = config_of(run)["history"][0]["changes"]
    assert changes["models.analyst"] == {"before": "builtin:autotune", "after": f"replay:{replay}"}


def test_a_server_is_where_it_was_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = RunSettings(models=Models.choose("openai-chat:m"))
    known = {"openai-chat": {"wire": "chat", "base_url": "http://gpu1:8000/v1", "dialect": "json"}}
    config: Any = {"settings": settings.model_dump(mode="json"), "endpoints": known, "executor": "local"}
    begun = resuming.Begun(config, TASK, settings, "local", None)
    connection = resuming._configuration(Asked(), begun).providers["openai-chat"]
    assert (connection.base_url, connection.dialect) == ("http://gpu1:8000/v1", "json")
    moved = resuming._configuration(Asked(base_url=("http://gpu2:8000/v1",)), begun).providers["openai-chat"]
    assert (moved.base_url, moved.dialect) == ("http://gpu2:8000/v1", "json")


@pytest.mark.parametrize(
    ("settings", "reason", "advice"),
    [
        ({}, "the iteration limit was reached", "--iterations"),
        ({"near_limit": 0.9}, "as near to the physical limit", "--near-limit"),
        ({"patience": 1, "iterations": 50}, "no gain in the last attempts", "--patience"),
    ],
)
def test_a_run_at_a_limit_that_is_as_it_was_is_refused_with_the_option_to_raise(
    tmp_path: Path, judge: StubExecutor, settings: dict[str, Any], reason: str, advice: str
) -> None:
    run = begin(tmp_path, RunSettings(budgets=UNBOUNDED.model_copy(update=settings)))
    before = config_of(run), RunFolder(run.path).outcome()
    with pytest.raises(WarpsmithError, match=reason) as told_why:
        resume_run(asked(run, parallel=2), as_json=False)
    assert advice in told_why.value.advice
    assert (config_of(run), RunFolder(run.path).outcome()) == before and not judge.judged


def test_a_killed_run_needs_no_option(tmp_path: Path, judge: StubExecutor) -> None:
    settings = RunSettings(budgets=UNBOUNDED)
    run = begin(tmp_path, settings)
    (run.path / "outcome.json").unlink()
    lines = (run.path / "events.jsonl").read_text().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if '"iteration_started"' in line)
    (run.path / "events.jsonl").write_text("".join(lines[: last + 1]) + '{"event": "hypo')
    assert resume_run(asked(run), as_json=False) == 0
    assert (RunFolder(run.path).outcome() or {})["iterations"] == 2


def test_an_option_that_can_not_be_used_changes_nothing(run: RunFolder, judge: StubExecutor) -> None:
    before = config_of(run)
    for wrong in (
        {"near_limit": 300.0},
        {"wall_time": "soon"},
        {"asked": Asked(model="nobody:m")},
        {"docs": (Path("no"),)},
    ):
        with pytest.raises(WarpsmithError):
            resume_run(asked(run, iterations=9, **wrong), as_json=False)
    with pytest.raises(WarpsmithError, match="needs a key"):
        resume_run(asked(run, iterations=9, asked=Asked(coder="anthropic:m")), as_json=False)
    assert config_of(run) == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: c.pop("settings"), "it has no 'settings'"),
        (lambda c: c.pop("task"), "it has no 'task'"),
        (lambda c: c["settings"].update(colour="red"), "1 validation error"),
        (lambda c: c.update(format=FORMAT + 7, version="8.0"), "written by warpsmith 8.0"),
    ],
)
def test_a_damaged_or_newer_folder_is_said_and_left_alone(
    run: RunFolder, judge: StubExecutor, damage: Any, message: str
) -> None:
    config = config_of(run)
    damage(config)
    (run.path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunFolderError, match=re.escape(message)):
        resume_run(asked(run, iterations=9), as_json=False)
    assert config_of(run) == config and RunFolder(run.path).outcome() is not None


@pytest.mark.parametrize("name", ["attempts/a1/attempt.json", "attempts/a1/verdict.json", "config.json"])
def test_a_file_that_is_cut_short_is_named(run: RunFolder, judge: StubExecutor, name: str) -> None:
    path = run.path / name
    path.write_text(path.read_text()[: path.stat().st_size // 2])
    with pytest.raises((RunFolderError, InfrastructureError), match=re.escape(name)):
        resume_run(asked(run, iterations=9), as_json=False)


def test_a_run_is_found_by_a_part_of_its_name_or_as_the_latest(run: RunFolder, judge: StubExecutor) -> None:
    resume_run(replace(asked(run, iterations=3), run="latest"), as_json=False)
    resume_run(replace(asked(run, iterations=4), run=run.id[:13]), as_json=False)
    with pytest.raises(RunFolderError, match="there is no run"):
        resume_run(replace(asked(run), run="nothing"), as_json=False)
    assert find_run("latest", run.path.parent).id == run.id


def hold(path: str, ready: Any, done: Any) -> None:
    with RunFolder(Path(path)).alone():
        ready.set()
        done.wait(60)


def test_a_run_that_another_process_works_on_is_refused(run: RunFolder, judge: StubExecutor) -> None:
    spawn = multiprocessing.get_context("spawn")
    ready, done = spawn.Event(), spawn.Event()
    other = spawn.Process(target=hold, args=(str(run.path), ready, done))
    other.start()
    try:
        assert ready.wait(60)
        with pytest.raises(RunFolderError, match=f"in use by process {other.pid}"):
            resume_run(asked(run, iterations=9), as_json=False)
        with pytest.raises(InfrastructureError, match="in use"):
            asyncio.run(optimize(TASK, RunSettings(), RunFolder(run.path), judge, lambda _: None))
    finally:
        other.kill()
        other.join()
    assert (run.path / LOCK_NAME).read_text(), "what a killed holder leaves"
    assert resume_run(asked(run, iterations=3), as_json=False) == 0, "and that is in nobody's way"


def go_on(path: str, start: Any, answers: Any) -> None:
    start.wait(60)
    try:
        with RunFolder(Path(path)).alone():
            answers.put("held")
            time.sleep(0.3)
    except RunFolderError as error:
        answers.put(str(error))


def test_of_several_at_once_one_goes_on(run: RunFolder) -> None:
    spawn = multiprocessing.get_context("spawn")
    start, answers = spawn.Event(), spawn.Queue()
    others = [spawn.Process(target=go_on, args=(str(run.path), start, answers)) for _ in range(5)]
    for other in others:
        other.start()
    start.set()
    told_so = [answers.get(timeout=60) for _ in others]
    for other in others:
        other.join()
    assert "held" in told_so
    assert all(answer == "held" or "in use by" in answer for answer in told_so)


def test_the_command_line_tells_what_it_can_not_do(run: RunFolder) -> None:
    command = [sys.executable, "-P", "-m", "app.start", "resume", str(run.path), "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and "--iterations" in done.stderr
    assert json.loads(done.stdout)["error"]["message"].endswith("that limit is as it was")
