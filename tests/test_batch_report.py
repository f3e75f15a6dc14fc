"""What is named for a batch, how it is planned, what is shown of it, and whether its summary's figures are right."""

from __future__ import annotations

import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from stub_batch import plan
from stub_executor import TASK
from synthetic_run import make_run

from agents.batch import Batch, Begun, Failed, Granted, PassedOver, Plan, QueuedTask, Refused, Stopped, Turned
from agents.batch_books import BatchEvent
from agents.batch_queue import TASK_FIELD, BatchFolder
from agents.batch_scores import FAST_AT, fast_p, geomean, scores
from app.batch import find_batch, print_batch
from app.batch_options import TaskLimits
from app.batch_plan import BatchRequest, configuration_of, plan_for
from app.batch_report import markdown, render, write_summary
from app.batch_summary import summarize_batch
from app.batch_tasks import read_tasks
from app.batch_view import JsonLines, Panel, PlainLines, watch_for
from app.configuration import Asked
from memory.files import RunFolderError
from tools.errors import WarpsmithError

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
speedups = st.lists(st.one_of(st.none(), st.floats(0.05, 50.0)), min_size=1, max_size=12)


# Figures


@given(speedups)
def test_fast_p_falls_with_p_and_counts_failures_in_its_denominator(found: list[float | None]) -> None:
    shares = [fast_p(found, p) for p in FAST_AT]
    assert shares == sorted(shares, reverse=True, key=float)  # type: ignore[arg-type]
    assert shares[0] == sum(s is not None for s in found) / len(found)
    worse = [fast_p([*found, None], p) for p in FAST_AT]
    assert all(w == pytest.approx(s * len(found) / (len(found) + 1)) for w, s in zip(worse, shares, strict=True) if s)


def test_figures_worked_out_by_hand() -> None:
    s = scores([4.0, 1.0, None, 0.5, 2.0], [2.0, 1.0, None, 8.0, None], [3, 1, -1, 1, None])
    assert (s.tasks, s.correct) == (5, 4)
    assert s.fast == {"0": 0.8, "1": 0.4, "1.5": 0.4, "2": 0.2}  # a speed-up of exactly p is not above p
    assert s.geomean == pytest.approx(math.sqrt(2))  # (4 * 1 * 0.5 * 2) ** (1 / 4)
    assert s.geomean_with_failures == pytest.approx(4 ** (1 / 5))
    assert s.gain_geomean == pytest.approx(16 ** (1 / 3))
    assert s.rewards == {"-1": 1, "1": 2, "2": 0, "3": 1, "none": 1} and s.mean_reward == 1.0


def test_nothing_has_no_mean() -> None:
    s = scores([], [], [])
    assert s.geomean is None and s.mean_reward is None and set(s.fast.values()) == {None} and geomean([]) is None


# Summary and report

NASTY = "<script>alert(1)</script> | `x` \x1b[31m"


@pytest.fixture
def folder(tmp_path: Path) -> BatchFolder:
    """One good run, one whose kernels were all wrong, one failed, one refused, one without a turn."""
    keys = ("good", "wrong", "failed", "refused", "waiting")
    tasks = tuple(
        QueuedTask(key=k, path=f"tasks/{k} {NASTY}", task=TASK.model_copy(update={"name": NASTY})) for k in keys
    )
    passed = (PassedOver(path=NASTY, reason=f"no task: {NASTY}", advice=NASTY),)
    made = BatchFolder.create(tmp_path, Batch(version="0", name="five", tasks=tasks, passed_over=passed))
    for key, accept in (("good", True), ("wrong", False)):
        run = make_run(made.runs / key, accept=accept)
        run.path.rename(made.runs / f"run-{key}")
        run = type(run)(made.runs / f"run-{key}")
        run.write_config({**run.config(), TASK_FIELD: key})
    ended: dict[str, Any] = {"iterations": 23, "share_of_limit": 0.3, "device_seconds": 9.0}
    with made.journal() as journal:
        journal.add(Begun(time=1.0, elapsed=0.0, plan=plan(dollars=5.0)))
        for key in ("good", "wrong"):
            journal.add(Granted(elapsed=1.0, task=key))
            journal.add(Turned(elapsed=2.0, task=key, reason="iterations", **ended))
        journal.add(Granted(elapsed=3.0, task="failed"))
        journal.add(
            Failed(
                elapsed=4.0,
                task="failed",
                kind="process",
                message=NASTY,
                progressed=False,
                again=None,
                device_seconds=1.0,
                lost_dollars=0.25,
            )
        )
        journal.add(Granted(elapsed=5.0, task="refused"))
        journal.add(Refused(elapsed=6.0, task="refused", message=NASTY, advice="", device_seconds=0.0))
        journal.add(Stopped(elapsed=7.0, reason="money"))
    return BatchFolder(made.path)


def test_a_summary_says_of_each_task_what_its_run_does(folder: BatchFolder) -> None:
    summary = summarize_batch(folder)
    rows = {row.task: row for row in summary.tasks}
    good, start = rows["good"], 4.4e-3
    assert good.best_seconds is not None and good.start_seconds == pytest.approx(start * math.sqrt(0.6))
    assert good.gain == pytest.approx(good.start_seconds / good.best_seconds)
    assert good.reward == 3 and good.measured == "afresh" and good.iterations == 23
    assert rows["wrong"].reward == -1 and rows["wrong"].speedup is None
    assert [rows[key].reward for key in ("failed", "refused", "waiting")] == [None] * 3
    assert (summary.scores.tasks, summary.scores.correct) == (4, 1)  # the refused one can't be judged
    assert summary.scores.fast["0"] == 0.25 and summary.scores.geomean == pytest.approx(good.speedup)
    assert good.speedup is not None
    assert summary.scores.geomean_with_failures == pytest.approx(good.speedup ** (1 / 4))
    assert (summary.state, summary.reason, summary.elapsed, summary.lost_dollars) == ("open", "money", 7.0, 0.25)
    assert summary.device_seconds == 19.0 and not summary.all_found


def test_a_summary_sees_what_another_process_wrote_since(folder: BatchFolder) -> None:
    before = summarize_batch(folder)
    run = folder.run_of("wrong")
    assert run is not None
    extra = run.attempts()[-1].model_copy(update={"id": run.next_id(), "kernel_id": "f" * 16, "outcome": "unjudged"})
    run.add_attempt(
        extra, {"kernel.cpp": ""}, {"status": "unjudged", "kernel": "f" * 16, "message": "no", "stages": []}
    )
    counts = {row.task: row.attempts for row in summarize_batch(folder).tasks}
    assert counts["wrong"] == {row.task: row.attempts for row in before.tasks}["wrong"] + 1


def test_what_is_over_is_not_read_again_and_what_went_on_is(folder: BatchFolder) -> None:
    before = summarize_batch(folder)
    marked = tuple(row.model_copy(update={"attempts": 999}) for row in before.tasks)
    earlier = before.model_copy(update={"tasks": marked})
    with folder.journal() as journal:
        journal.add(Begun(time=2.0, elapsed=8.0, plan=plan(), reopened=("good",)))
        journal.add(Granted(elapsed=8.0, task="good"))
    counts = {row.task: row.attempts for row in summarize_batch(folder, earlier).tasks}
    assert counts["wrong"] == counts["failed"] == counts["refused"] == 999
    assert counts["good"] != 999 and counts["waiting"] == 0


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_report_needs_nothing_else_and_shows_what_others_wrote_as_text(folder: BatchFolder) -> None:
    summary = summarize_batch(folder)
    path = write_summary(folder, summary)
    page = _Page()
    page.feed(path.read_text())
    assert "script" not in page.tags and page.loads == []
    assert json.loads((folder.path / "summary.json").read_text()) == summary.model_dump(mode="json")
    for name in ("good", "wrong", "failed", "refused", "waiting"):
        assert name in path.read_text() and name in (folder.path / "summary.md").read_text()
    assert "<script" not in markdown(summary) and "\x1b" not in markdown(summary)


def test_each_row_of_the_markdown_table_has_the_heads_columns(folder: BatchFolder) -> None:
    rows = [line for line in markdown(summarize_batch(folder)).splitlines() if line.startswith("|")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {11}


def test_a_batch_without_any_turn_can_be_summed_up(tmp_path: Path) -> None:
    task = QueuedTask(key="a", path="a", task=TASK)
    folder = BatchFolder.create(tmp_path, Batch(version="0", name="new", tasks=(task,)))
    summary = summarize_batch(folder)
    assert summary.begun == 0 and summary.tasks[0].ending == "had no turn yet"
    assert "0 of 1 tasks" in render(summary, folder.path) and "had no turn yet" in markdown(summary)


def test_the_terminals_table_holds_every_task_and_obeys_none(folder: BatchFolder) -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=False)
    print_batch(console, summarize_batch(folder))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert all(name in shown for name in ("good", "wrong", "failed", "refused", "waiting"))
    assert "fast_1.5 25 %" in shown and "\x1b[31m" not in shown


# What is named


def test_folders_lists_and_paths_become_tasks_and_the_rest_is_passed_over_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "task.toml").write_text('reference = "r.py"\n')
    source = "def inputs(rng): ...\ndef reference(x): ...\n"
    (tmp_path / "good" / "r.py").write_text(source)
    (tmp_path / "one.py").write_text(source)
    (tmp_path / "broken.py").write_text("def inputs(:\n")
    (tmp_path / "helper.py").write_text("x = 1\n")
    (tmp_path / "_private.py").write_text(source)
    (tmp_path / "notes").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "one.py").write_text(source)
    (tmp_path / "list.txt").write_text("# mine\n\none.py\nother/one.py\nmissing.py\nnotes\n")
    tasks, passed = read_tasks([tmp_path, tmp_path / "list.txt"])
    assert [task.key for task in tasks] == ["good", "one", "one-2"]
    reasons = {Path(each.path).name: each.reason for each in passed}
    assert set(reasons) == {"broken.py", "helper.py", "one.py", "missing.py", "notes"}
    assert "named before" in reasons["one.py"] and "no task" in reasons["missing.py"]
    assert all(each.reason for each in passed)


def test_all_examples_are_tasks() -> None:
    tasks, passed = read_tasks([EXAMPLES])
    assert len(tasks) == len(list(EXAMPLES.glob("*/task.toml"))) == 6 and passed == ()


# The plan


def request(**given: Any) -> BatchRequest:
    names = BatchRequest.__dataclass_fields__
    unset: dict[str, Any] = {
        name: None for name in names if name not in ("paths", "each", "asked", "docs", "runs", "command")
    } | {"paths": (), "asked": Asked(), "docs": (), "runs": Path("runs"), "command": ()}
    given["each"] = TaskLimits(**{name: given.pop(name) for name in TaskLimits.__dataclass_fields__ if name in given})
    return BatchRequest(**(unset | {"lessons": "none"} | given))


def planned(asked: BatchRequest, before: Plan | None, folder: Path, **environ: str) -> Plan:
    return plan_for(asked, before, environ, folder)[0]


def test_the_shared_budget_is_not_each_tasks(tmp_path: Path) -> None:
    asked = request(
        asked=Asked(max_dollars=9.0), wall_time="2h", task_wall_time="90s", task_dollars=2.0, iterations=7, near_limit=0
    )
    made = planned(asked, None, tmp_path, WARPSMITH_MAX_TOKENS="5000")
    assert (made.shared.dollars, made.shared.tokens, made.shared.wall_time) == (9.0, 5000, 7200.0)
    own = made.settings.budgets
    assert (own.dollars, own.tokens, own.wall_time, own.iterations, own.near_limit) == (2.0, None, 90.0, 7, None)


def test_a_resumed_batch_keeps_what_is_not_said_anew(tmp_path: Path) -> None:
    first = planned(
        request(
            asked=Asked(model="builtin:autotune", max_dollars=9.0), jobs=3, turn=2, patience=5, seed=4, target="cuda"
        ),
        None,
        tmp_path,
    )
    again = Plan.model_validate_json(first.model_dump_json())
    assert planned(request(), again, tmp_path) == first
    changed = planned(request(jobs=1, iterations=9, asked=Asked(max_dollars=20.0)), again, tmp_path)
    assert (changed.jobs, changed.turn, changed.shared.dollars) == (1, 2, 20.0)
    assert (changed.settings.seed, changed.settings.language, changed.settings.budgets.patience) == (4, "cuda", 5)
    assert changed.settings.budgets.iterations == 9
    reached = configuration_of(changed, {}, tmp_path)
    assert {choice.model.value for choice in reached.roles.values()} == {"builtin:autotune"}


def test_neither_environment_nor_settings_file_changes_a_batch_that_was_begun(tmp_path: Path) -> None:
    first = planned(request(wall_time="60h", asked=Asked(max_tokens=1000)), None, tmp_path)
    again = Plan.model_validate_json(first.model_dump_json())
    limits = 'wall_time = "1h"\nmax_dollars = 3\niterations = 2'
    (tmp_path / "warpsmith.toml").write_text(f'[models]\ndefault = "openai:x"\n[budgets]\n{limits}\n')
    environ = {"WARPSMITH_MODEL": "openai:m", "WARPSMITH_FALLBACK": "openai:f", "WARPSMITH_MAX_TOKENS": "5"}
    assert planned(request(), again, tmp_path, **environ) == first
    said = planned(request(asked=Asked(max_dollars=7.0, coder="openai:c")), again, tmp_path, **environ)
    assert (said.shared.dollars, said.shared.tokens, said.shared.wall_time) == (7.0, 1000, 216_000.0)
    models = said.settings.models
    assert (models.planner, models.coder, models.analyst) == ("builtin:autotune", "openai:c", "builtin:autotune")
    back = planned(request(asked=Asked(model="builtin:autotune", fallback=("coder=openai:f",))), said, tmp_path)
    assert back.settings.models.coder == "builtin:autotune"
    assert back.settings.models.fallback == {"planner": (), "coder": ("openai:f",), "analyst": ()}


def test_a_batch_below_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    batch = Batch(version="0", name="x", tasks=(QueuedTask(key="a", path="a", task=TASK),))
    with pytest.raises(RunFolderError, match="is a file"):
        BatchFolder.create(tmp_path / "runs", batch)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"wall_time": "soon"}, "--wall-time"),
        ({"task_wall_time": "0"}, "--task-wall-time"),
        ({"device_time": "x"}, "--device-time"),
        ({"near_limit": 100}, "--near-limit"),
        ({"task_dollars": -1.0}, "--task-dollars"),
        ({"asked": Asked(max_dollars=-2.0)}, "--max-dollars"),
    ],
)
def test_a_bad_limit_is_named(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(WarpsmithError, match=said):
        planned(request(**given), None, tmp_path)


def test_a_batch_is_found_by_path_name_part_or_latest(tmp_path: Path) -> None:
    task = QueuedTask(key="a", path="a", task=TASK)
    with pytest.raises(RunFolderError, match="no batches"):
        find_batch("latest", tmp_path)
    made = [BatchFolder.create(tmp_path, Batch(version="0", name=name, tasks=(task,))) for name in ("x", "y")]
    assert find_batch("latest", tmp_path).path == made[1].path
    assert find_batch("batch-x", tmp_path).path == find_batch(str(made[0].path), tmp_path).path == made[0].path
    with pytest.raises(RunFolderError, match="2 batches"):
        find_batch("batch", tmp_path)


# What is seen on the way

EVENTS = [
    BatchEvent(kind="begun", task=None, fields={"tasks": 5, "jobs": 2, "elapsed": 0.0}),
    BatchEvent(kind="granted", task="good", fields={"turn": 1, "closing": None}),
    BatchEvent(
        kind="happened",
        task="good",
        fields={
            "event": "best_changed",
            "fields": {
                "attempt": "a3",
                "seconds": 0.002,
                "gain": 2.0,
                "gain_by": "raced",
                "speedup": 3.0,
                "share_of_limit": 0.5,
            },
        },
    ),
    BatchEvent(kind="happened", task="good", fields={"event": "hypothesis", "fields": {"change": f"[bold]{NASTY}"}}),
    BatchEvent(
        kind="turned",
        task="good",
        fields={"status": "paused", "reason": "turn_over", "iterations": 5, "share_of_limit": 0.5},
    ),
    BatchEvent(kind="failed", task="wrong", fields={"message": f"it {NASTY}", "again": 20.0}),
    BatchEvent(kind="refused", task="refused", fields={"message": "zeros would pass", "advice": ""}),
    BatchEvent(kind="granted", task="good", fields={"turn": 1, "closing": "wall_time"}),
    BatchEvent(kind="halting", task=None, fields={"at_once": False}),
    BatchEvent(kind="stopped", task=None, fields={"reason": "user", "elapsed": 3.0}),
]


def test_a_pipe_gets_one_line_for_what_matters(folder: BatchFolder) -> None:
    console = Console(file=io.StringIO(), width=160)
    watch = watch_for(console, folder.batch(), folder.board(), None, as_json=False)
    assert isinstance(watch, PlainLines)
    for event in EVENTS:
        watch.show(event)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "5 tasks, 2 at a time" and "good: turn 1" in lines
    assert "good: a3 is the best, 2.000 ms, 2.00x against the start, raced, 50 % of limit" in lines
    assert "refused: can't be used: zeros would pass" in lines and any("again in 20 s" in line for line in lines)
    assert "\x1b" not in console.file.getvalue()


def test_a_program_gets_a_json_object_for_everything(folder: BatchFolder, capsys: pytest.CaptureFixture[str]) -> None:
    watch = watch_for(Console(), folder.batch(), folder.board(), None, as_json=True)
    assert isinstance(watch, JsonLines)
    for event in EVENTS:
        watch.show(event)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == [event.kind for event in EVENTS]
    assert lines[2]["run_event"]["event"] == "best_changed" and lines[2]["task"] == "good"


@pytest.mark.parametrize("height", [12, 40])
def test_a_terminal_gets_a_table_that_fits(folder: BatchFolder, height: int) -> None:
    console = Console(file=io.StringIO(), width=120, height=height, force_terminal=True)
    watch = watch_for(console, folder.batch(), folder.board(), 60.0, as_json=False)
    assert isinstance(watch, Panel)
    for event in EVENTS:
        watch.show(event)
    with console.capture() as drawn:
        console.print(watch._draw())
    plain = re.sub(r"\x1b\[[0-9;]*m", "", drawn.get())
    assert "good" in plain and "2.00x" in plain and len(plain.splitlines()) <= height
    assert "\x1b[31m" not in plain and "finishing the steps" in plain


# The command


def warpsmith(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.start", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "No task was named"),
        (["nowhere.py"], "no task"),
        (["examples", "--resume", "latest"], "--resume"),
        (["--resume", "latest", "--runs", "nowhere"], "no batches"),
    ],
)
def test_bad_arguments_are_one_sentence(arguments: list[str], said: str) -> None:
    done = warpsmith("batch", *arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_help_is_for_newcomers() -> None:
    text = warpsmith("batch", "--help").stdout
    for word in ("For instance", "--resume", "Exit codes", "--json", "--debug", "Ctrl-C"):
        assert word in text


@pytest.mark.slow
@pytest.mark.timeout(900)  # two judges share a machine that may be busy
def test_a_real_batch_drains_at_ctrl_c_and_is_resumed_to_its_end(tmp_path: Path) -> None:
    """Real compiler, judge and worker, on one small task beside one that can't be opened."""
    (tmp_path / "tasks").mkdir()
    inputs = 'import numpy as np\ndef inputs(rng):\n    return {"x": rng.standard_normal((256, 512))}\n'
    kernel = (
        '#include "task.h"\n// tune: STEP = 1,2\n#ifndef STEP\n#define STEP 1\n#endif\n'
        'extern "C" void solve(const task::Args& args, void*) {\n'
        "  for (int64_t i = 0; i < args.x_size; ++i) args.out[i] = args.x[i] * 2.0 + 1.0;\n}\n"
    )
    for name, reference in (("twice", "x * 2.0 + 1.0"), ("zeros", "x * 0.0")):
        (tmp_path / "tasks" / f"{name}.py").write_text(
            f'{inputs}def reference(x):\n    return {{"out": {reference}}}\n'
        )
        (tmp_path / "tasks" / f"{name}.cpp").write_text(kernel)
    arguments = ["--runs", str(tmp_path / "runs"), "--json"]
    begin = [sys.executable, "-m", "app.start", "batch", str(tmp_path / "tasks"), *arguments]
    limits = ["--jobs", "2", "--iterations", "2", "--near-limit", "0", "--lessons", "none"]
    process = subprocess.Popen([*begin, *limits], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "happened" and event["run_event"]["event"] == "iteration_started":
            process.send_signal(signal.SIGINT)
            break
    told = [json.loads(line) for line in process.communicate()[0].splitlines()]
    assert process.returncode == 130 and told[-1]["event"] == "summary" and told[-1]["reason"] == "user"
    done = warpsmith("batch", "--resume", "latest", *arguments)
    summary = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    rows = {row["task"]: row for row in summary["tasks"]}
    assert rows["twice"]["reason"] == "iterations" and rows["twice"]["iterations"] == 2 and rows["twice"]["speedup"] > 0
    assert rows["zeros"]["status"] == "refused" and summary["scores"]["tasks"] == 1 and summary["begun"] == 2
    for name in ("summary.json", "summary.md", "report.html"):
        assert (Path(summary["path"]) / name).is_file()
    assert not _working_on(summary["path"])


def _working_on(path: str) -> list[int]:
    """Processes of the batch's tasks that are left after a moment."""
    left: list[int] = []
    for _ in range(100):
        left = [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and int(entry.name) != os.getpid() and _names(entry, path)
        ]
        if not left:
            break
        time.sleep(0.05)
    return left


def _names(entry: Path, path: str) -> bool:
    try:
        return path.encode() in (entry / "cmdline").read_bytes()
    except OSError:
        return False


@given(st.text(max_size=40))
@settings(max_examples=30, deadline=None)
def test_any_name_of_a_task_can_be_shown(name: str) -> None:
    event = BatchEvent(kind="refused", task=name, fields={"message": name, "advice": ""})
    console = Console(file=io.StringIO(), width=80)
    PlainLines(console).show(event)
    assert isinstance(console.file, io.StringIO) and console.file.getvalue().count("\n") <= 1
