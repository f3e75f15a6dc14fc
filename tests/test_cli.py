"""The command as a person runs it: results, exit codes, errors in one sentence, Ctrl-C, and what is left behind."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from app.inputs import find_run, kernel_at, overrides, seconds_of
from memory.files import RunFolderError
from memory.runs import RunFolder, list_runs
from tests.synthetic_run import make_run
from tools.errors import KernelError, TaskError
from tools.profiles import Profile
from tools.records import Accepted, Rejected

ROOT = Path(__file__).resolve().parent.parent
TASK = """
import numpy as np

def inputs(rng):
    return {"x": rng.standard_normal((256, 512))}

def reference(x):
    return {"out": x * 2.0 + 1.0}
"""
KERNEL = """
#include "task.h"
// tune: STEP = 1,2
#ifndef STEP
#define STEP 1
#endif
extern "C" void solve(const task::Args& args, void*) {
    for (int64_t i = 0; i < args.x_size; i += STEP)
        for (int64_t k = i; k < i + STEP; ++k) args.out[k] = args.x[k] * 2.0 + 1.0;
}
"""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "app.start", *map(str, arguments)]


def warpsmith(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "twice.py"
    path.write_text(TASK)
    (tmp_path / "twice.cpp").write_text(KERNEL)
    return path


def sentence_only(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2 and done.stdout == ""


def test_help_imports_nothing_heavy_and_documents_the_exit_codes() -> None:
    code = (
        "import sys\nfrom app.cli import app\n"
        "try: app(['--help'], standalone_mode=True)\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'pydantic', 'langgraph', 'optuna', 'torch', 'rich', 'jinja2', 'asyncio'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Exit codes" in done.stdout and "130" in done.stdout


@pytest.mark.parametrize("name", ["optimize", "check", "profile", "show", "runs", "report", "doctor"])
def test_every_command_has_help_exit_codes_and_json(name: str) -> None:
    text = warpsmith(name, "--help").stdout
    assert "Exit codes" in text and "--json" in text and "--debug" in text


def test_version() -> None:
    assert warpsmith("--version").stdout.split()[0] == "warpsmith"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["optimize", "no-such-task.py"], "no-such-task.py"),
        (["check", "no-such-task.py", "k.cpp"], "no-such-task.py"),
        (["optimize", "{task}", "--wall-time", "soon"], "soon"),
        (["optimize", "{task}", "--near-limit", "100"], "--near-limit"),
        (["optimize", "{task}", "--set", "size"], "NAME=VALUE"),
        (["optimize", "{task}", "--start", "no.cpp"], "no.cpp"),
        (["check", "{task}", "{kernel}", "-D", "STEP"], "NAME=VALUE"),
        (["check", "{task}", "missing.cpp"], "missing.cpp"),
        (["show", "latest", "--runs", "{tmp}"], "no runs"),
    ],
)
def test_bad_arguments_are_one_sentence(task: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    names = {"{task}": str(task), "{kernel}": str(task.with_suffix(".cpp")), "{tmp}": str(tmp_path / "runs")}
    done = warpsmith(*[names.get(a, a) for a in arguments])
    sentence_only(done)
    assert said in done.stderr


def test_errors_are_json_with_json_and_tracebacks_with_debug() -> None:
    done = warpsmith("check", "no-such-task.py", "k.cpp", "--json")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "task" and "no-such-task.py" in error["message"]
    assert "Traceback" in warpsmith("check", "no-such-task.py", "k.cpp", "--debug").stderr


def test_an_unknown_option_exits_with_two() -> None:
    done = warpsmith("check", "--nonsense")
    assert done.returncode == 2 and "nonsense" in done.stderr


def test_runs_show_and_report_read_a_run_back(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    empty = warpsmith("runs", "--runs", runs)
    assert empty.returncode == 0 and "no runs" in empty.stdout
    run = make_run(runs)
    (runs / "unrelated").mkdir()
    assert run.id in warpsmith("runs", "--runs", runs).stdout
    listed = json.loads(warpsmith("runs", "--runs", runs, "--json").stdout)
    assert [item["run"] for item in listed] == [run.id]
    shown = warpsmith("show", "latest", "--runs", runs).stdout
    assert "2.36x" in shown and "a23" in shown and "wrong result" in shown
    result = json.loads(warpsmith("show", run.path, "--json").stdout)
    assert result["best"] == "a21" and len(result["ledger"]) == 24
    report = warpsmith("report", "softmax", "--runs", runs).stdout.strip()
    assert Path(report).read_text().startswith("<!doctype html>")


def test_show_attempt_tells_hypothesis_change_verdict_and_profile(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    text = warpsmith("show", run.path, "a21").stdout
    for expected in (
        "Wider blocks",
        "flags: default → -O3",
        "accepted",
        "+void solve() { /* 21",
        "memory bound",
        "moved     time ~-12 %",
    ):
        assert expected in text, expected
    rejected = warpsmith("show", run.path, "a3").stdout
    assert "out[3, 7] is 0.5, expected 0.25" in rejected
    found = json.loads(warpsmith("show", run.path, "best", "--json").stdout)
    assert found["attempt"]["id"] == "a21" and Accepted.model_validate(found["verdict"])
    sentence_only(warpsmith("show", run.path, "a99"))


@pytest.mark.parametrize("name", ["attempt.json", "verdict.json"])
@pytest.mark.parametrize("text", ["{", "{}"], ids=["torn", "empty"])
def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path, name: str, text: str) -> None:
    good, bad = make_run(tmp_path, attempts=2), make_run(tmp_path, attempts=2)
    for attempt in ("a0", "a1"):
        (bad.folder_of(attempt) / name).write_text(text)
    done = warpsmith("runs", "--runs", tmp_path)
    assert done.returncode == 0 and good.id in done.stdout and "damaged" in done.stdout
    sentence_only(warpsmith("show", bad.path))


def test_runs_are_found_by_part_of_their_name(tmp_path: Path) -> None:
    first, second = make_run(tmp_path, attempts=1), make_run(tmp_path, attempts=1)
    assert find_run("latest", tmp_path).id == second.id
    assert find_run(first.id, tmp_path).id == first.id
    with pytest.raises(RunFolderError, match="fits 2 runs"):
        find_run("softmax", tmp_path)
    with pytest.raises(RunFolderError, match="there is no run"):
        find_run("other", tmp_path)


def test_overrides_are_json_where_they_can_be() -> None:
    assert overrides(["a=16", "b=1.5", "c=true", "d=text", "e=[1,2]"]) == {
        "a": 16,
        "b": 1.5,
        "c": True,
        "d": "text",
        "e": [1, 2],
    }
    with pytest.raises(TaskError):
        overrides(["2x=1"])


def test_times_have_units() -> None:
    assert [seconds_of(text) for text in ("90", "90s", "1.5m", "2h", "1d")] == [90, 90, 90, 7200, 86400]
    for text in ("", "0", "-3", "5 weeks", "inf"):
        with pytest.raises(ValueError, match="not a time"):
            seconds_of(text)


def test_a_kernel_can_be_an_attempt_with_its_settings(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=3)
    kernel = kernel_at(run.folder_of("a1"))
    assert kernel.defines == {"BLOCK": "32"} and kernel.flags == ("-O3",)
    assert kernel_at(run.path / "best", ["BLOCK=8"], ["-O1"]).defines == {"BLOCK": "8"}
    (run.folder_of("a1") / "attempt.json").write_text("{}")
    with pytest.raises(KernelError):
        kernel_at(run.folder_of("a1"))


def test_only_declared_tunables_can_be_set(task: Path) -> None:
    kernel = task.with_suffix(".cpp")
    assert kernel_at(kernel, ["STEP=2"]).defines == {"STEP": "2"}
    with pytest.raises(KernelError, match="declares no tunable STEPS") as caught:
        kernel_at(kernel, ["STEPS=2"])
    assert "STEP = 1,2" in caught.value.advice


def test_check_accepts_rejects_and_says_why(task: Path, tmp_path: Path) -> None:
    good = warpsmith("check", task, task.with_suffix(".cpp"), "--json")
    assert good.returncode == 0, good.stdout + good.stderr
    assert Accepted.model_validate_json(good.stdout).speedup > 0
    wrong = tmp_path / "wrong.cpp"
    wrong.write_text(KERNEL.replace("+ 1.0", "+ 1.5"))
    done = warpsmith("check", task, wrong)
    assert done.returncode == 1 and "wrong result" in done.stdout and "first wrong: out[" in done.stdout
    broken = tmp_path / "broken.cpp"
    broken.write_text(KERNEL.replace("args.out", "args.output"))
    done = warpsmith("check", task, broken, "--json")
    verdict = Rejected.model_validate_json(done.stdout)
    assert done.returncode == 1 and verdict.reason == "compile_error" and verdict.diagnostics[0].line == 9


def test_profile_names_a_bottleneck(task: Path) -> None:
    done = warpsmith("profile", task, task.with_suffix(".cpp"), "--json")
    assert done.returncode == 0, done.stderr
    assert Profile.model_validate_json(done.stdout).evidence


def test_optimize_leaves_a_run_a_report_and_a_result(task: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    hint = ("--hint", "the rows are <long>")
    done = warpsmith("optimize", task, "--iterations", 2, "--runs", runs, "--json", *hint, timeout=240)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    run = RunFolder(Path(result["path"]))
    assert result["attempts"] == len(run.attempts()) >= 2 and result["best"] == run.best()
    assert Path(result["report"]).read_text().startswith("<!doctype html>")
    words = run.config()["command"]
    assert isinstance(words, list) and words[:2] == ["warpsmith", "optimize"]
    assert "iteration 1 of 2" in done.stderr
    told = warpsmith("show", run.id, "--context", "planner", "--at", 1, "--runs", runs)
    assert hint[1] in told.stdout, told.stdout + told.stderr
    again = warpsmith("check", task, run.path / "best", "--json")
    assert again.returncode == 0, again.stdout + again.stderr


def test_optimize_without_an_accepted_kernel_exits_with_one(task: Path, tmp_path: Path) -> None:
    task.with_suffix(".cpp").write_text(KERNEL.replace("+ 1.0", "+ 1.5"))
    done = warpsmith("optimize", task, "--iterations", 1, "--runs", tmp_path / "runs")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "No attempt has been accepted" in done.stdout or "was not accepted" in done.stdout


def test_optimize_without_a_starting_kernel_leaves_no_litter(task: Path, tmp_path: Path) -> None:
    task.with_suffix(".cpp").unlink()
    done = warpsmith("optimize", task, "--runs", tmp_path / "runs")
    sentence_only(done)
    assert "--start" in done.stderr and list_runs(tmp_path / "runs") == []


def test_what_a_run_fails_of_once_it_began_is_said_once(task: Path, tmp_path: Path) -> None:
    text = task.read_text()
    task.write_text(text.replace("def reference(x):", "def reference(x):\n    raise ValueError('no such luck')"))
    done = warpsmith("optimize", task, "--runs", tmp_path / "runs")
    said = done.stdout + done.stderr
    assert done.returncode == 2 and said.count("no such luck") == 1 and "opening the task" in said, said
    assert done.stderr.startswith("error: ") and list_runs(tmp_path / "runs") == []


@pytest.mark.parametrize("has_its_own", [True, False])
@pytest.mark.parametrize(("target", "name"), [("cpu", "k.cu"), ("cuda", "k.cpp")])
def test_a_starting_kernel_of_another_target_s_language_is_refused_and_not_left_aside(
    task: Path, target: str, name: str, has_its_own: bool
) -> None:
    given = task.with_name(name)
    given.write_text(KERNEL)
    if not has_its_own:
        task.with_suffix(".cpp").unlink()
    done = warpsmith("optimize", task, "--start", given, "--target", target, "--runs", task.with_name("runs"))
    sentence_only(done)
    said, language = " ".join(done.stderr.split()), "CUDA C++" if name == "k.cu" else "C++"
    assert f"{name} is {language}, and --target {target} takes" in said and "no starting kernel" not in said
    assert list_runs(task.with_name("runs")) == []


def test_a_runs_folder_that_cannot_be_made_is_one_sentence(task: Path, tmp_path: Path) -> None:
    sentence_only(warpsmith("optimize", task, "--runs", task))
    sentence_only(warpsmith("optimize", task, "--runs", "/proc/nowhere"))


def offspring(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


@pytest.mark.parametrize("moment", ["starting", "opening", "judging", "searching"])
def test_ctrl_c_at_any_moment_keeps_the_folder_and_ends_everything(task: Path, tmp_path: Path, moment: str) -> None:
    runs = tmp_path / "runs"
    argv = command("optimize", task, "--iterations", 200, "--patience", 200, "--near-limit", 0, "--runs", runs)
    child = subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )
    wait_for(moment, runs, child)
    left = offspring(psutil.Process(child.pid))
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, out + err
    assert "Traceback" not in err
    _, alive = psutil.wait_procs(left, timeout=10)
    assert not alive, [p.cmdline() for p in alive]
    for run in list_runs(runs):
        assert run.attempts() is not None
        if moment in ("judging", "searching"):
            assert run.outcome() is not None and (run.path / "report.html").exists() and "stopped by the user" in out


def wait_for(moment: str, runs: Path, child: subprocess.Popen[str]) -> None:
    """Until the run has come to that moment, seen from outside."""
    events = {"opening": "run_started", "judging": "task_opened", "searching": "iteration_ended"}
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert child.poll() is None, child.communicate()
        if moment == "starting" and "pydantic_core" in Path(f"/proc/{child.pid}/maps").read_text():
            return
        if moment in events:
            seen = {str(line["event"]) for run in list_runs(runs) for line in run.events()}
            if events[moment] in seen:
                return
        time.sleep(0.02)
    raise AssertionError(f"never came to {moment}")


SWALLOWS = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "pydantic_core":
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                pass

sys.meta_path.insert(0, Finder())
from app.start import main
main()
"""


def test_ctrl_c_amid_an_import_that_swallows_exceptions_is_heard(task: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SWALLOWS, "optimize", str(task), "--runs", str(tmp_path / "runs")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")


def test_a_reader_that_goes_away_does_not_end_the_run(task: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    arguments = command("optimize", task, "--runs", runs, "--iterations", "1")
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(timeout=200) == 0, errors
    (run,) = list_runs(runs)
    assert (run.outcome() or {})["reason"] in ("iterations", "exhausted")
    assert (run.path / "report.html").is_file()


def test_two_runs_of_one_task_at_once_both_end_well(task: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    argv = command("optimize", task, "--iterations", 1, "--runs", runs, "--json")
    both = [
        subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    results = [child.communicate(timeout=240) for child in both]
    assert [child.returncode for child in both] == [0, 0], results
    paths = {json.loads(out)["path"] for out, _ in results}
    assert len(paths) == 2 and {str(run.path) for run in list_runs(runs)} == paths


def test_a_terminal_gets_the_live_panel_and_the_final_table(task: Path, tmp_path: Path) -> None:
    text, code = in_terminal(command("optimize", task, "--iterations", 2, "--runs", tmp_path / "runs"))
    assert code == 0, text
    for expected in ("iteration", "of limit", "Ctrl-C finishes", "left", "workload", "report"):
        assert expected in text


def in_terminal(argv: list[str]) -> tuple[str, int]:
    """Run in a pseudo-terminal of 100 columns; everything it showed, and its exit code."""
    outer, inner = pty.openpty()
    environment = os.environ | {"COLUMNS": "100", "LINES": "40", "TERM": "xterm-256color"}
    child = subprocess.Popen(argv, cwd=ROOT, stdin=inner, stdout=inner, stderr=inner, env=environment)
    os.close(inner)
    shown = b""
    while child.poll() is None or select.select([outer], [], [], 0)[0]:
        if select.select([outer], [], [], 0.1)[0]:
            try:
                shown += os.read(outer, 65536)
            except OSError:
                break
    os.close(outer)
    return shown.decode(errors="replace"), child.wait(timeout=120)
