"""Signals and limits of `optimize`, `resume` and `batch`, as whole processes; only the judge is a stub.

Nothing here waits for a time: each step waits for what the process said or wrote.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import stub_batch
from nursery import FOLDER, nursery
from stub_batch import make_batch, plan
from stub_executor import KERNEL
from stub_run import REFERENCE

from agents.events import Journal
from agents.pausing import LIFT_NAME, PAUSED_NAME
from agents.settings import Budgets, RunSettings
from agents.steering_limits import AtLimit
from app.signals import CUTTING, FINISHING
from app.summary import summarize
from memory.runs import RunFolder, list_runs

UNBOUNDED = ("--near-limit", "0", "--lessons", "none")


@pytest.fixture(scope="module")
def runs_nest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nursery("stub_run", tmp_path_factory.mktemp("runs")) as path:
        yield path


@pytest.fixture(scope="module")
def batch_nest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nursery("stub_batch", tmp_path_factory.mktemp("batches")) as path:
        yield path


class Program:
    """`warpsmith WORD...` in a process of its own, and the folder by which its judge is held."""

    def __init__(self, nest: str, root: Path, *words: str, name: str = "it", hup: str = "default") -> None:
        self.folder = root / name
        self.folder.mkdir(exist_ok=True)
        command = [sys.executable, "-S", "-E", str(FOLDER / "nursery.py"), nest, str(self.folder), hup, *words]
        self.said = (self.folder / "said").open("w+b")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said)

    def until(self, there: Path | str) -> None:
        """Until a file is there, or something was said."""
        while not (there.exists() if isinstance(there, Path) else there in self.text):
            assert self.process.poll() is None, self.text
            time.sleep(0.005)

    def send(self, number: signal.Signals) -> None:
        os.kill(int((self.folder / "pid").read_text()), number)

    @property
    def text(self) -> str:
        return Path(self.said.name).read_text()

    def end(self) -> int:
        code = self.process.wait()
        self.said.close()
        return code

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.said.close()


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "twice.py").write_text(REFERENCE)
    (tmp_path / "twice.cpp").write_text(KERNEL)
    return tmp_path / "twice.py"


@pytest.fixture(scope="module")
def ended(runs_nest: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one iteration."""
    root = tmp_path_factory.mktemp("ended")
    (root / "twice.py").write_text(REFERENCE)
    (root / "twice.cpp").write_text(KERNEL)
    words = ("optimize", str(root / "twice.py"), "--iterations", "1", "--runs", str(root / "runs"), *UNBOUNDED)
    with Program(runs_nest, root, *words) as program:
        assert program.end() == 0, program.text
    return root / "runs"


def begun(kind: str, nest: str, task: Path, ended: Path, hup: str = "default") -> tuple[Program, Path]:
    """A process that works on a run and is held while it judges the first kernel of an iteration, and that moment."""
    root = task.parent
    runs = ("--runs", str(root / "runs"))
    if kind == "resume":
        shutil.copytree(ended, root / "runs", symlinks=True)
    number = 0 if kind == "resume" else 1
    (root / "it").mkdir()
    hold = root / "it" / f"hold-{number}"
    hold.touch()
    words = ("resume", "latest") if kind == "resume" else ("optimize", str(task), *UNBOUNDED)
    program = Program(nest, root, *words, "--iterations", "3", *runs, hup=hup)
    program.until(root / "it" / f"judging-{number}")
    return program, hold


def only_run(task: Path) -> RunFolder:
    (run,) = list_runs(task.parent / "runs")
    return RunFolder(run.path)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("optimize", signal.SIGINT),
        ("optimize", signal.SIGHUP),
        ("resume", signal.SIGINT),
        ("resume", signal.SIGTERM),
    ],
)
def test_a_signal_finishes_the_step_saves_and_reports(
    runs_nest: str, task: Path, ended: Path, kind: str, number: signal.Signals
) -> None:
    program, hold = begun(kind, runs_nest, task, ended)
    with program:
        before = len(only_run(task).attempts())
        program.send(number)
        program.until(FINISHING)
        hold.unlink()
        assert program.end() == 128 + number, program.text
    run = only_run(task)
    assert len(run.attempts()) == before + 1, "what was being judged is saved"
    assert (run.outcome() or {})["reason"] == "user" and (run.path / "report.html").exists()


@pytest.mark.parametrize(("kind", "first"), [("optimize", signal.SIGINT), ("resume", signal.SIGTERM)])
def test_a_second_signal_stops_at_once(
    runs_nest: str, task: Path, ended: Path, kind: str, first: signal.Signals
) -> None:
    program, _ = begun(kind, runs_nest, task, ended)
    with program:
        before = len(only_run(task).attempts())
        program.send(first)
        program.until(FINISHING)
        program.send(signal.SIGINT)
        assert program.end() == 128 + first and CUTTING in program.text
    run = only_run(task)
    assert len(run.attempts()) == before and (run.outcome() or {})["reason"] == "user"
    with Program(runs_nest, task.parent, "resume", str(run.path), name="again") as again:
        assert again.end() == 0, again.text
    assert (only_run(task).outcome() or {})["iterations"] == 3


@pytest.mark.parametrize("kind", ["optimize", "resume"])
def test_under_nohup_a_terminal_may_go_away(runs_nest: str, task: Path, ended: Path, kind: str) -> None:
    program, hold = begun(kind, runs_nest, task, ended, hup="ignore")
    with program:
        program.send(signal.SIGHUP)
        hold.unlink()
        assert program.end() == 0, program.text
    assert (only_run(task).outcome() or {})["reason"] == "iterations"


# Limits that wait for a person


def paused(nest: str, task: Path) -> Program:
    words = ("--iterations", "1", "--pause-at-limit", "--runs", str(task.parent / "runs"), *UNBOUNDED)
    program = Program(nest, task.parent, "optimize", str(task), *words)
    program.until("paused: ")
    return program


def test_a_run_waits_at_its_limit_until_another_terminal_raises_it(runs_nest: str, task: Path) -> None:
    with paused(runs_nest, task) as program:
        run = only_run(task)
        assert (run.path / PAUSED_NAME).exists() and summarize(run).state == "paused"
        with Program(runs_nest, task.parent, "show", str(run.path), name="show") as show:
            assert show.end() == 0 and "paused" in show.text and "warpsmith resume" in show.text
        program.until(run.path / "report.html")
        for words, said in (
            ((), "Raise it: --iterations"),
            (("--model", "replay:x", "--iterations", "2"), "kill -INT"),
        ):
            with Program(runs_nest, task.parent, "resume", str(run.path), *words, name=f"wrong{len(words)}") as wrong:
                assert wrong.end() == 2 and said in wrong.text, wrong.text
        (run.path / LIFT_NAME).write_text('{"wanted": 1, "hints": []}')  # nobody's
        words = ("--iterations", "2", "--hint", "use wide loads")
        with Program(runs_nest, task.parent, "resume", str(run.path), *words, name="lift") as lift:
            assert lift.end() == 0 and (program.folder / "pid").read_text() in lift.text, lift.text
        while sum(event["event"] == "run_paused" for event in run.events()) < 2:
            assert program.process.poll() is None, program.text
            time.sleep(0.005)
        program.send(signal.SIGTERM)
        assert program.end() == 143, program.text
    run = only_run(task)
    told = [event for event in run.events() if event["event"] == "run_resumed"]
    assert [event["changes"] for event in told] == [{"budgets.iterations": {"before": 1, "after": 2}}]
    assert run.hints() == [{"iteration": 2, "text": "use wide loads"}]
    assert (run.outcome() or {})["iterations"] == 2 and summarize(run).state == "ended"
    assert not (run.path / PAUSED_NAME).exists() and not (run.path / LIFT_NAME).exists()
    settings = run.config()["settings"]
    assert isinstance(settings, dict) and settings["pause_at_limit"] is True


def played(nest: str, task: Path, *words: str) -> tuple[int, str]:
    """What became of another command, and what it said."""
    with Program(nest, task.parent, *words, name="-".join(words[:1] + words[2:])[:60].replace("/", "_")) as program:
        return program.end(), program.text


def test_a_limit_is_lifted_by_steering_too(runs_nest: str, task: Path) -> None:
    with paused(runs_nest, task) as program:
        run = only_run(task)
        steer = ("steer", str(run.path))
        for given, code, told in (
            ("budget iterations=1", 1, "would end at once: the iteration limit was reached.\nGive a larger one"),
            ("budget patience=9", 1, "budget iterations=VALUE"),
            ("budget iterations=0", 2, "can't be 0"),
            ("resume", 1, "waits at its limit"),
            ("accept", 1, "waits at its limit"),
            ("hint use wide loads", 0, "heeds it once that is larger"),
            ("budget iterations=2 patience=none", 0, "limits: iterations 2"),
        ):
            ended, said = played(runs_nest, task, *steer, *given.split())
            assert ended == code and told in said, said
        while sum(event["event"] == "run_paused" for event in run.events()) < 2:
            assert program.process.poll() is None, program.text
            time.sleep(0.005)
        assert played(runs_nest, task, *steer, "stop")[0] == 0
        assert program.end() == 0, program.text
    run = only_run(task)
    resumed = [event for event in run.events() if event["event"] == "run_resumed"]
    before = {"before": 40, "after": None}
    assert [e["changes"] for e in resumed] == [
        {"budgets.iterations": {"before": 1, "after": 2}, "budgets.patience": before}
    ]
    assert run.standing_hints() == ["use wide loads"], "what was given meanwhile was heeded"
    assert (run.outcome() or {})["iterations"] == 2 and summarize(run).state == "ended"
    budgets = RunSettings.model_validate(run.config()["settings"]).budgets
    assert (budgets.iterations, budgets.patience) == (2, None)


def test_a_limit_that_was_raised_while_nobody_waited_lets_a_run_be_resumed(runs_nest: str, task: Path) -> None:
    words = ("optimize", str(task), "--iterations", "1", "--runs", str(task.parent / "runs"), *UNBOUNDED)
    assert played(runs_nest, task, *words)[0] == 0
    run = only_run(task)
    assert played(runs_nest, task, "resume", str(run.path))[0] == 2
    assert "will heed it" in played(runs_nest, task, "steer", str(run.path), "budget", "iterations=2")[1]
    code, said = played(runs_nest, task, "resume", str(run.path), "--patience", "9")
    assert code == 0, said
    assert (only_run(task).outcome() or {})["iterations"] == 2
    code, said = played(runs_nest, task, "resume", str(run.path), "--iterations", "1")
    assert code == 0 and "ends at once, with a last measurement: 2 iterations are done, and the limit is 1" in said, (
        said
    )


def test_a_limit_that_was_raised_while_the_run_was_ending_is_not_waited_at(ended: Path, tmp_path: Path) -> None:
    run = RunFolder(shutil.copytree(next(ended.iterdir()), tmp_path / "run", symlinks=True))
    lines = (run.path / "events.jsonl").read_text().splitlines()
    limits = {"limits": {"iterations": 3}, "before": {"iterations": 1}}
    raised = {"event": "steered", "id": "0" * 12, "action": "budget", "iteration": 2, "about": limits}
    (run.path / "events.jsonl").write_text("\n".join([*lines[:-1], json.dumps(raised), lines[-1]]) + "\n")
    settings = RunSettings.model_validate(run.config()["settings"])
    now = settings.model_copy(update={"budgets": settings.budgets.model_copy(update={"iterations": 3})})
    with Journal(run.path / "events.jsonl", lambda _: None) as journal:
        for limit, lifted in ((settings, None), (now, now)):
            with AtLimit(run, limit, "iterations", journal) as hand:
                assert hand.look() == lifted


def test_a_run_that_was_stopped_says_that_it_ends_at_once(runs_nest: str, task: Path, ended: Path) -> None:
    shutil.copytree(ended, task.parent / "runs", symlinks=True)
    run = only_run(task)
    (run.path / "outcome.json").unlink()
    assert summarize(run).state == "stopped" and f"warpsmith resume {run.path}" in summarize(run).standing
    pause = {"event": "steered", "id": "0" * 12, "action": "pause", "iteration": 2, "about": {}}
    with (run.path / "events.jsonl").open("a") as log:
        log.write(json.dumps(pause) + "\n")
    assert "before that it waited (paused by a person)" in summarize(run).standing
    with (run.path / "events.jsonl").open("a") as log:
        log.write(json.dumps(pause | {"id": "1" * 12, "action": "resume"}) + "\n")
    code, said = played(runs_nest, task, "resume", str(run.path), "--iterations", "1")
    assert code == 0 and "ends at once, with a last measurement: 1 iteration is done" in said, said


def test_a_run_that_was_killed_while_it_waited_goes_on_where_it_is_resumed(runs_nest: str, task: Path) -> None:
    with paused(runs_nest, task) as program:
        run = only_run(task)
        program.process.kill()
    assert (run.path / PAUSED_NAME).exists()
    code, said = played(runs_nest, task, "show", str(run.path))
    assert code == 0 and "ended" in said and "paused" not in said and "is gone: warpsmith resume" in said, said
    words = ("--iterations", "2", "--end-at-limit")
    with Program(runs_nest, task.parent, "resume", str(run.path), *words, name="again") as again:
        assert again.end() == 0, again.text
    run = only_run(task)
    assert (run.outcome() or {})["iterations"] == 2 and summarize(run).state == "ended"


# Batches


def started(nest: str, tmp_path: Path, faults: dict[str, dict[str, object]]) -> tuple[subprocess.Popen[str], Path]:
    """A batch in a process of its own, which says each event on its standard output, and its folder."""
    folder = make_batch(tmp_path, faults)
    endless = stub_batch.SETTINGS.model_copy(
        update={"budgets": Budgets(iterations=10_000, near_limit=None, patience=None)}
    )
    (folder.path / "plan.json").write_text(plan(jobs=1, turn=10_000, settings=endless).model_dump_json())
    command = stub_batch.command(nest, str(folder.path), "", nest)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True), folder.path


def heard(process: subprocess.Popen[str], kind: str, event: str = "") -> dict[str, object]:
    """The next event of that kind (of a run: of that name)."""
    assert process.stdout is not None
    for line in process.stdout:
        told: dict[str, object] = json.loads(line)
        fields = told["fields"]
        if told["kind"] == kind and (not event or (isinstance(fields, dict) and fields["event"] == event)):
            return told
    raise AssertionError(f"the batch ended before {kind} {event}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_steps_of_a_batch(batch_nest: str, tmp_path: Path, number: signal.Signals) -> None:
    process, path = started(batch_nest, tmp_path, {"a": {}, "b": {}})
    with process:
        pid = heard(process, "pid")["fields"]
        heard(process, "happened", "iteration_started")
        os.kill(int(str(pid)), number)
        heard(process, "halting")
        heard(process, "stopped")
        process.wait()
    board = stub_batch.BatchFolder(path).board()
    assert board.reason == "user" and board.tasks["a"].status == "paused" and board.tasks["b"].status == "waiting"


def test_a_second_signal_ends_a_batch_at_once_with_all_its_processes(batch_nest: str, tmp_path: Path) -> None:
    process, path = started(batch_nest, tmp_path, {"a": {"hang": True}, "b": {}})
    with process:
        pid = heard(process, "pid")["fields"]
        while not (path / "a.judged").exists():
            time.sleep(0.005)
        os.kill(int(str(pid)), signal.SIGINT)
        heard(process, "halting")
        os.kill(int(str(pid)), signal.SIGTERM)
        assert heard(process, "halting")["fields"] == {"at_once": True}
        heard(process, "stopped")
        process.wait()
    folder = stub_batch.BatchFolder(path)
    assert folder.board().tasks["a"].status == "paused"
    run = folder.run_of("a")
    assert run is not None
    with run.alone():  # nobody works on it any more
        assert run.attempts() == []
