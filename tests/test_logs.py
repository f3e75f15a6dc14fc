"""`warpsmith logs`: what a person reads of a run's events, and how long one follows them."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.event_schema import RECORDS
from agents.events import Journal, bound
from app import following
from app.following import RESUMED_WITHIN, moment, show_run_log, wanted_of, watch
from app.log_lines import Wanted, log_line
from memory.files import Json
from memory.runs import RunFolder
from memory.tail import Tail
from tools.errors import WarpsmithError

ROOT = Path(__file__).resolve().parent.parent
ENDED: dict[str, Any] = {
    "reason": "iterations",
    "iterations": 1,
    "attempts": 2,
    "kept": 1,
    "best": "a1",
    "seconds": 0.001,
    "share_of_limit": 0.5,
    "speedup": 2.0,
    "elapsed": 9.0,
}
HOLDS_A_RUN = """
import os, sys
from pathlib import Path
from agents.events import Journal
with Journal(Path(sys.argv[1]), lambda _: None) as journal:
    journal.tell("lessons_failed", message=sys.argv[2])
    print("told", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "logs", {})


def journal_of(run: RunFolder) -> Journal:
    return Journal(run.path / "events.jsonl", lambda _: None)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "app.start", "logs", *map(str, arguments)]


class Watched:
    """Follows a run; each of `steps` is done in turn when nothing came, and takes that many seconds."""

    def __init__(self, run: RunFolder, steps: list[tuple[Callable[[], object], float]]) -> None:
        self.seen: list[str] = []
        self.clock = 0.0
        self._steps = steps
        with Tail(run.path / "events.jsonl") as tail:
            self.how = watch(tail, self._show, self._step, lambda: self.clock)

    def _show(self, told: Json) -> None:
        self.seen.append(str(told.get("message", told["event"])))

    def _step(self, _seconds: float) -> None:
        do, seconds = self._steps.pop(0)
        do()
        self.clock += seconds


# --- lines ------------------------------------------------------------------------------------------------------------

HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
NAMES = sorted({name for record in RECORDS.values() for name in record.model_fields})


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([*RECORDS, "a_later_kind"]), st.dictionaries(st.sampled_from(NAMES), HOSTILE, max_size=8))
def test_whatever_stands_in_a_line_is_shown_on_one_line_that_a_terminal_does_not_obey(kind: str, told: Json) -> None:
    shown = log_line(told | {"event": kind})
    assert shown.strip() and len(shown.splitlines()) == 1
    assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 or 0x202A <= ord(sign) <= 0x202E for sign in shown)


def test_lines_say_who_and_what(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal_of(run) as journal, bound(iteration=3, role="coder", turn="0003-coder-1"):
        journal.tell("tool_called", role="coder", tool="run", ok=False, error="wrong_arguments", seconds=75.0)
        journal.tell("lessons_failed", message="\x1b[2J\x9bred\nsecond \u202eline")
    with journal_of(run) as journal:
        journal.tell("run_ended", **ENDED)
        journal.tell("run_ended", **ENDED | {"attempts": 1, "best": None})
    lines = [log_line(told)[21:] for told in run.events()]
    assert lines == [
        "3 coder 1    run took 1 min 15 s: wrong arguments",
        "3 coder 1    lessons: [2Jred second line",
        "-            the run ended: the iteration limit was reached; 2 attempts, 1 kept; best a1, 1.000 ms, 2.00x "
        "against the baseline, as judged in the search",
        "-            the run ended: the iteration limit was reached; 1 attempt, 1 kept",
    ]


def test_only_what_was_asked_for_is_shown(run: RunFolder) -> None:
    with journal_of(run) as journal:
        with bound(role="planner"):
            journal.tell("lessons_failed", message="planner's")
        journal.tell("lessons_failed", message="nobody's")
        journal.tell("run_ended", **ENDED)

    def shown(wanted: Wanted) -> list[str]:
        out = io.StringIO()
        with redirect_stdout(out):
            assert show_run_log(run, wanted, follow=False, as_json=True)
        return [str(line.get("message", line["event"])) for line in map(json.loads, out.getvalue().splitlines())]

    assert shown(wanted_of([], [], None)) == ["planner's", "nobody's", "run_ended"]
    assert shown(wanted_of(["run_ended"], [], "1h")) == ["run_ended"]
    assert shown(wanted_of([], ["planner"], None)) == ["planner's"]
    assert shown(Wanted(since=datetime.now(UTC) + timedelta(minutes=1))) == []
    for kinds, roles, since in ((["run_endet"], [], None), ([], ["boss"], None), ([], [], "yesterday")):
        with pytest.raises(WarpsmithError):
            wanted_of(kinds, roles, since)


def test_a_time_is_a_span_ago_or_a_moment() -> None:
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert moment("90s", now) == now - timedelta(seconds=90) and moment("2h", now).hour == 10
    assert moment("2026-11-30T10:00+01:00", now).hour == 9
    assert moment("2026-11-30T10:00", now) == datetime(2026, 11, 30, 10).astimezone()


# --- following --------------------------------------------------------------------------------------------------------


def hold(run: RunFolder, message: str) -> subprocess.Popen[str]:
    """A process that writes into the run, once it has."""
    path = run.path / "events.jsonl"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_RUN, str(path), message],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert holder.stdout is not None and holder.stdout.readline() == "told\n"
    return holder


def test_following_goes_on_across_a_kill_and_a_resumption_and_ends_with_the_run(run: RunFolder) -> None:
    first = hold(run, "the first process")

    def kill() -> None:
        first.kill()
        first.communicate()
        with (run.path / "events.jsonl").open("a") as file:
            file.write('{"event": "lessons_failed", "mess')

    def resume() -> None:
        second = journal_of(run)
        second.tell("lessons_failed", message="the second process")
        held.append(second)

    def end() -> None:
        held[0].tell("run_ended", **ENDED)

    held: list[Journal] = []
    idle: Callable[[], object] = lambda: None  # noqa: E731
    steps = [(idle, 100.0), (kill, 0.0), (idle, RESUMED_WITHIN - 1), (resume, 0.0), (idle, 1000.0), (idle, 0.0)]
    steps += [(end, 0.0), (idle, 60.0), (lambda: held[0].__exit__(None, None, None), 0.0), (idle, 0.0)]
    watched = Watched(run, steps)
    assert watched.how == "ended" and watched.seen == ["the first process", "the second process", "run_ended"]


def test_a_process_that_is_gone_without_an_end_is_told_from_one_that_is_silent(run: RunFolder) -> None:
    with journal_of(run) as journal:
        journal.tell("lessons_failed", message="last words")

        def leave() -> None:
            journal.__exit__(None, None, None)

        watched = Watched(run, [(lambda: None, 1e6), (leave, 0.0), (lambda: None, 6.0), (lambda: None, 6.0)])
    assert watched.how == "died" and watched.seen == ["last words"]


def test_nobody_is_told_to_resume_a_run_whose_folder_is_gone(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(following, "RESUMED_WITHIN", 0.0)
    with journal_of(run) as journal:
        journal.tell("lessons_failed", message="last words")
    assert not show_run_log(run, wanted_of([], [], None), follow=True, as_json=False)
    assert f"warpsmith resume {run.id}" in capsys.readouterr().err
    shutil.rmtree(run.path)
    assert not show_run_log(run, wanted_of([], [], None), follow=True, as_json=False)
    said = capsys.readouterr().err
    assert f"{run.path} is gone" in said and "Go on" not in said


def test_a_run_that_was_ended_and_is_resumed_is_followed_to_its_second_end(run: RunFolder) -> None:
    with journal_of(run) as journal:
        journal.tell("run_ended", **ENDED)
    again = journal_of(run)
    steps: list[tuple[Callable[[], object], float]] = [
        (lambda: None, 100.0),
        (lambda: again.tell("lessons_failed", message="more"), 0.0),
        (lambda: again.tell("run_ended", **ENDED), 0.0),
        (lambda: again.__exit__(None, None, None), 0.0),
        (lambda: None, 0.0),
    ]
    assert Watched(run, steps).seen == ["run_ended", "more", "run_ended"]


def test_following_survives_rotation_and_truncation(run: RunFolder) -> None:
    path = run.path / "events.jsonl"
    journal = journal_of(run)

    def say(message: str) -> Callable[[], object]:
        return lambda: journal.tell("lessons_failed", message=message)

    steps: list[tuple[Callable[[], object], float]] = [
        (say("1"), 0.0),
        (lambda: path.rename(run.path / "events.jsonl.1"), 100.0),
        (lambda: None, 100.0),
        (say("2"), 0.0),
        (lambda: (os.truncate(path, 0), say("3")()), 0.0),
        (lambda: journal.tell("run_ended", **ENDED), 0.0),
        (lambda: journal.__exit__(None, None, None), 0.0),
        (lambda: None, 0.0),
    ]
    watched = Watched(run, steps)
    assert watched.how == "ended" and watched.seen == ["1", "2", "3", "run_ended"]


@pytest.fixture
def ended(run: RunFolder) -> Iterator[RunFolder]:
    with journal_of(run) as journal:
        for number in range(1200):
            journal.tell("lessons_failed", message=f"{number} " + "x" * 60)
        journal.tell("run_ended", **ENDED)
    yield run


def test_the_command_follows_to_the_end_and_a_closed_pipe_is_quiet(ended: RunFolder) -> None:
    for flags in ((), ("--follow",)):
        shown = subprocess.Popen(
            command(ended.path, *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert shown.stdout is not None and shown.stderr is not None
        assert "0 xxx" in shown.stdout.readline()
        shown.stdout.close()
        assert shown.stderr.read() == "" and shown.wait(60) == 0
    told = subprocess.run(
        command(ended.path, "-f", "--json", "--kind", "run_ended"), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout)["reason"] == "iterations" and not told.stderr
