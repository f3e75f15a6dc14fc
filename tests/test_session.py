"""The session's screen, driven by keys: over a run that measures nothing, over hostile texts, and over a real one."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.text import Text
from session_pilot import (
    PATIENCE,
    Noting,
    follows,
    given,
    is_over,
    notified,
    press,
    resized,
    seconds_of,
    settled,
    shown,
    started,
    stub_run,
    until,
    write,
)
from session_terminal import Watched
from small_tasks import SAXPY
from stub_executor import TASK, StubExecutor
from typer.testing import CliRunner

from agents.drive import optimize
from agents.events import Event, Journal
from agents.settings import Budgets, RunSettings
from agents.spoken import SPOKEN
from agents.steering_actions import ACTION, ACTIONS
from agents.steering_box import Box
from app import cli_steer
from app.configuration import Asked, configure
from app.optimize import Prepared, Request
from app.options import RunLimits
from app.session.app import SessionApp
from app.session.archive import Archive
from app.session.driver import Driver
from app.session.exports import Choice, Export, Exportable
from app.session.keys import KEYS, PANES
from app.session.lines import Lines, clean, folded
from app.session.panes import KernelPane, LogPane, Pane, VerdictPane, WordsPane
from app.session.story import Story
from app.session_start import EventLines, attach_to, has_screen, require_one
from app.steer import steer
from app.steer_words import action_of
from memory.runs import RunFolder
from memory.tail import Tail
from tests.screenshots import keep_terminal
from tools.errors import WarpsmithError
from tools.executor import LocalExecutor
from tools.records import Kernel
from tools.task import read_task

KERNEL = """#include "task.h"
// tune: STEP = 1,2
#ifndef STEP
#define STEP 1
#endif
extern "C" void solve(const task::Args& args, void*) {
    for (int64_t i = 0; i < args.x_size; ++i) args.out[i] = 2 * args.x[i] + args.y[i];
}
"""
HOSTILE = (
    "[bold red]not markup[/] [@click=app.exit]x[/] \x1b[31m\x1b]0;title\x07 \u202eright to left\u202c "
    "\u05e9\u05dc\u05d5\u05dd 漢字の幅 👩‍👩‍👧 e\u0301 \x00\x08 \t tab " + "long " * 2_000
)


def panes_seen(app: SessionApp) -> int:
    return sum(bool(pane.region) for pane in app.session.query(Pane))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return asyncio.run(stub_run(tmp_path_factory.mktemp("finished")))


@pytest.fixture
def run(finished: RunFolder, tmp_path: Path) -> RunFolder:
    """A run that ended, of which a test may do what it likes."""
    return RunFolder(shutil.copytree(finished.path, tmp_path / finished.id, symlinks=True))


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets $EDITOR to a script with these commands; `$1` is the file."""

    def set_to(commands: str) -> None:
        path = tmp_path / "editor.sh"
        path.write_text(f"#!/bin/sh\n{commands}\n")
        path.chmod(0o755)
        monkeypatch.setenv("VISUAL", str(path))

    yield set_to


# --- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (40, 12)])
async def test_a_run_is_shown_at_any_size_and_each_pane_has_its_key(run: RunFolder, size: tuple[int, int]) -> None:
    app = Noting(run)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and follows(app), "following the newest")
        texts = {}
        for number, name in enumerate(PANES, start=1):
            await press(pilot, str(number))
            texts[name] = shown(app)
            assert "ENDED" in texts[name]
            if size != (160, 48) or name == "plan":
                keep_terminal(app, f"{size[0]}x{size[1]}-{name}")
        parts = {"plan": "from a0", "kernel": "#include", "verdict": "change", "words": "Judged."}
        parts |= {"money": "iterations", "log": "the run ended"}
        for name, part in parts.items():
            assert part in texts[name], name
        wide = size[0] >= 120
        assert all((part in texts["plan"]) == wide for name, part in parts.items() if name not in ("plan", "verdict"))
        assert app.session.plan.chosen == list(app.session.story.attempts)[-1], "it follows the newest"


async def test_the_cursor_follows_the_newest_attempt_until_it_is_moved(run: RunFolder) -> None:
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and follows(app), "following the newest")
        story, plan = app.session.story, app.session.plan

        def add(*names: str) -> None:
            last = story.attempts[next(reversed(story.attempts))]
            story.attempts.update({name: dataclasses.replace(last, id=name, idea=None) for name in names})
            plan.update(story)

        add("a96", "a97")  # two at once
        add("a98")  # and another before those were laid out
        await until(pilot, lambda: plan.chosen == "a98", "following several")
        plan.choose("a1")
        await until(pilot, lambda: plan.chosen == "a1", "the person's choice")
        add("a99")
        await settled(pilot)
        assert plan.chosen == "a1"


async def test_it_changes_shape_with_its_terminal(run: RunFolder) -> None:
    app = Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        for size, one in (((80, 24), True), ((200, 60), False), ((30, 8), True), ((160, 48), False)):
            await resized(pilot, *size)
            assert app.session.shows_one is one and panes_seen(app) == (1 if one else len(PANES))
        await press(pilot, "z")
        assert app.session.shows_one and panes_seen(app) == 1


async def test_views_of_the_kernel_and_its_hot_lines(run: RunFolder) -> None:
    best = run.best()
    assert best is not None
    profile = run.profile(best)
    assert profile is not None
    hot = {"file": "kernel.cpp", "line": 7, "text": "extern", "note": "waits for memory", "share": 0.42}
    run.add_profile(best, profile | {"hot_lines": [hot]})
    app = Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await press(pilot, "b")
        pane = app.session.query_one(KernelPane)
        await until(pilot, lambda: str(pane.border_title) == f"2 kernel: {best}")
        marked = [line.plain for line in pane.body.lines if ">" in line.plain[:7]]
        assert len(marked) == 1 and marked[0].endswith("<- 42 % waits for memory")
        await press(pilot, "n", "v")
        await until(pilot, lambda: "against its parent" in str(pane.border_title))
        assert any(line.plain.startswith("+ BLOCK=") for line in pane.body.lines)
        await press(pilot, "v")
        await until(pilot, lambda: "against the best" in str(pane.border_title))
        verdict = app.session.query_one(VerdictPane)
        assert any("of 10.0 GB/s" in line.plain for line in verdict.body.lines), "the place under the roof"


async def test_nothing_depends_on_colour(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await settled(pilot)
        text = shown(app)
        assert app.no_color and "BEST" in text and "[####" in text and "+ a" in text


async def test_texts_of_others_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    start = Kernel(language="cpp", files={"kernel.cpp": f"// {HOSTILE}\nvoid solve() {{}}\n"})
    run = await _judged(tmp_path, start)
    app = Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await press(pilot, *"123456")
        text = shown(app)
        assert not any(ch in text for ch in "\x1b\x07\x00\x08\u202e\u202c")
        assert "[bold red]not markup[/]" in text
        assert all(cell_len(row) == 160 for row in text.split("\n")), "what is wide moves nothing"
        assert any("漢字の幅" in line.plain for line in app.session.query_one(KernelPane).body.lines)
        for pane in app.session.query(Lines):
            assert all("\x1b" not in line.plain and len(line.plain) < 25_000 for line in pane.lines)


async def _judged(root: Path, start: Kernel) -> RunFolder:
    """A run whose kernel, task and events hold hostile text."""
    task = TASK.model_copy(update={"name": HOSTILE[:80], "start": {"cpp": start}})
    run = RunFolder.create(root, "hostile", {})
    run.add_hint(HOSTILE[:3000], 1)
    settings = RunSettings(budgets=Budgets(iterations=1, near_limit=None))
    executor = StubExecutor(lambda _: None)
    await optimize(task, settings, run, executor, lambda _: None)
    return run


@pytest.mark.parametrize("width", [8, 20, 77])
def test_folded_lines_fit_whatever_they_hold(width: int) -> None:
    for text in (HOSTILE, "漢" * 200, "x" * 500, "", "a  b\n\nc"):
        assert all(cell_len(line.plain) <= max(8, width) + 2 for line in folded(text, width, indent="  "))
    assert len(clean("y" * 1_000_000)) < 1_100


# --- keys and actions -------------------------------------------------------------------------------------------------


async def test_every_key_that_acts_hands_the_run_its_action(
    run: RunFolder, editor: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a run that ended: what was given waits for the next process. Every action of a session is given once."""
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and follows(app), "following the newest")
        chosen = app.session.plan.chosen
        await press(pilot, "p", "f", "k")
        for key, text in (
            ("h", "hint rows are [b]short[/b]"),
            ("x", "forbid unrolling"),
            ("slash", "ask why?"),
            ("m", "model coder builtin:autotune"),
            ("l", "budget iterations=9 dollars=none wall_time=2h near_limit=3"),
            ("y", "policy mixed"),
            ("r", "reject"),
            ("A", "approval on"),
            ("colon", "resume"),
            ("colon", "withdraw rows are [b]short[/b]"),
            ("colon", "unpin"),
            ("colon", "allow unrolling"),
            ("colon", "stop"),
            ("colon", f"plan {_plan_file(tmp_path)}"),
        ):
            await press(pilot, key)
            await write(pilot, text)
        await press(pilot, "a", "w")
        await press(pilot, "y")
        editor('echo "// mine" >> "$1"')
        await press(pilot, "e")
        await write(pilot, "a remark")
    actions = given(run)
    assert {action["action"] for action in actions} == set(ACTIONS)
    assert all(ACTION.validate_python(action) for action in actions)
    by_name = {action["action"]: action for action in actions}
    assert by_name["fork"]["attempt"] == by_name["pin"]["attempt"] == chosen
    assert by_name["hint"]["text"] == "rows are [b]short[/b]"
    limits = {"iterations": 9, "dollars": None, "wall_time": 7200.0, "near_limit": 0.03}
    assert by_name["budget"]["limits"] == limits
    edit = by_name["edit"]
    assert edit["parent"] == chosen and edit["files"]["kernel.cpp"].endswith("// mine\n") and edit["note"] == "a remark"
    with Box(run.path) as box:
        assert len(box.new()) == len(actions)


def _plan_file(folder: Path) -> Path:
    path = folder / "a plan.json"
    path.write_text(json.dumps({"idea": "i", "change": "c", "metric": "seconds", "expected": "-5 %", "parent": "a0"}))
    return path.rename(folder / "plan.json")


async def test_what_is_typed_replaces_the_idea_that_is_offered(run: RunFolder) -> None:
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and follows(app), "following the newest")
        for keys in (("x", "enter"), ("x", *"ab", "enter")):
            await press(pilot, *keys)
        assert not any(line.plain.startswith("left") for line in app.session.query_one("#money-body", Lines).lines)
    offered, typed = (action["idea"] for action in given(run))
    tried = app.session.story.attempts[app.session.plan.chosen or ""]
    assert tried.idea is not None and offered == tried.idea.change and typed == "ab"


async def test_what_is_written_wrongly_is_explained_and_given_to_nobody(
    run: RunFolder, editor: Callable[[str], None]
) -> None:
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        for text in ("", "dance", "fork", "fork b7", "pin a1 a2", "budget x=1", "model cook a:b", "edit /nowhere.cpp"):
            await press(pilot, "colon")
            await write(pilot, text)
        await press(pilot, "colon", "escape")
        for script in ("true", "false"):  # nothing was changed; the editor failed
            editor(script)
            app.clear_notifications()
            await press(pilot, "e")
            assert len(notified(app)) == 1
        await press(pilot, "E")
        assert len(app.screen_stack) == 2 and given(run) == []


async def test_help_names_every_key_and_action_and_the_palette_has_them(run: RunFolder) -> None:
    app = Noting(run)
    async with app.run_test(size=(100, 60)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await press(pilot, "question_mark")
        text = "\n".join(line.plain for line in app.screen.query_one("#help-body", Lines).lines)
        assert all(key.label in text and key.does in text for key in KEYS) and all(name in text for name in ACTIONS)
        keep_terminal(app, "100x60-help")
        await press(pilot, "escape")
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert any(title.startswith("pause") for title in titles) and len(titles) >= len(KEYS) - 3
        await pilot.press("ctrl+p")
        await until(pilot, lambda: len(app.screen_stack) == 3, "the palette")
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 2, "the session again")


# --- exporting --------------------------------------------------------------------------------------------------------


async def test_what_can_not_be_exported_is_refused_with_a_reason(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose record is not whole, and a form that does not apply."""
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.plan.chosen is not None)
        await press(pilot, "X")
        await until(pilot, lambda: any("does not hold" in text for text in notified(app)))
        assert len(app.screen_stack) == 2
        choices = (Choice("sources", "its files", None, None), Choice("torch-op", "a package", "it is torch", None))
        monkeypatch.setattr("app.session.wheel.exportable", lambda *_: Exportable("local", "stub", choices))
        for keys in (("X", "2"), ("X", "down", "enter")):
            app.clear_notifications()
            await press(pilot, *keys)
            await until(pilot, lambda: "torch-op does not apply: it is torch" in notified(app))
        await press(pilot, "X", "9")
        assert app.session.choose.is_open
        await press(pilot, "escape")
        assert app.session.dialog is None and len(app.screen_stack) == 2 and not app.session.story.exports


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ([{"doing": "build"}, {"folder": "/o"}, {"ended": "accepted again", "status": "accepted"}], "accepted", "/o"),
        ([{"ended": "refused: /o is there already", "status": "refused"}], "refused", "there already"),
        ([{"folder": "/o"}], "unjudged", "boom"),
    ],
)
async def test_an_export_is_told_as_it_goes_on(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, said: list[dict[str, str]], status: str, words: str
) -> None:
    """What its process says, and what becomes of one that ends without a word."""
    script = f"import sys; print({chr(10).join(map(json.dumps, said))!r}); sys.stderr.write('boom')"
    monkeypatch.setattr("app.session.export_process.command", lambda *_: [sys.executable, "-c", script])
    app = Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        export = Export("a1", "sources", Path("/nowhere"))
        app.session._carry_out(export, "local")
        await until(pilot, lambda: export.doing is None)
        assert export.status == status and words in export.words
        money = app.session.query_one("#money-body", Lines)
        await until(pilot, lambda: any(line.plain.startswith(status) for line in money.lines), "a word in pane 5")


async def test_leaving_amid_an_export_asks_and_stops_its_process(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # as the real one, wherever it is
    script = f"{heard}; import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    monkeypatch.setattr("app.session.export_process.command", lambda *_: [sys.executable, "-c", script])
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        app.session._carry_out(Export("a1", "sources", tmp_path / "out"), "local")
        await until(pilot, lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
        await press(pilot, "q")
        assert "not judged yet" in shown(app)
        await press(pilot, "n", "q")
        assert app.session.sure.is_open
        await press(pilot, "y")
        assert is_over(app)
    pid = int((tmp_path / "pid").read_text())
    for _ in range(int(PATIENCE / 0.05)):
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if not Path(f"/proc/{pid}").exists():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("its process goes on")


# --- what it costs ----------------------------------------------------------------------------------------------------


class Work:
    """Counts what a session does: readings of the log, look-ups of attempts, panes that are filled, lines drawn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: Counter[str] = Counter()
        for owner, name in ((Tail, "lines"), (Archive, "find"), (Lines, "show"), (Lines, "_drawn")):
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.done[name] += 1
            return call(*args)

        return counted


async def test_a_session_that_nobody_touches_does_nothing(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr("app.session.screen.time", SimpleNamespace(monotonic=lambda: clock.now))
    work, app = Work(monkeypatch), Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        session = app.session
        await until(pilot, lambda: session.story.ended is not None)
        await settled(pilot)
        session.look()  # sees where the cursor came to rest
        work.done.clear()
        for _ in range(100):
            session.look()
        assert not work.done
        clock.now += 1  # a clock may have moved, a profile may have come: asked once a second, nothing is drawn
        for _ in range(100):
            session.look()
        await settled(pilot)
        assert work.done["find"] <= 6 and not work.done.keys() - {"find"}
        with (run.path / "events.jsonl").open("a") as log:
            log.write(json.dumps({"v": 1, "at": "2026-01-01T00:00:00Z", "event": "something_new"}) + "\n")
        session.look()
        assert work.done["lines"] == 1 and work.done["show"] <= 2
        await settled(pilot)
        assert work.done["_drawn"] <= session.query_one(LogPane).body.size.height + 2, "the log's lines alone"


async def test_a_key_draws_what_it_changes(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    work, app = Work(monkeypatch), Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await press(pilot, "b")
        work.done.clear()
        await press(pilot, "6", "5", "1")
        assert not work.done["_drawn"] and not work.done["lines"], "another pane has the focus, no text changed"
        body = app.session.query_one(VerdictPane).body
        body.show([*body.lines[:3], Text("changed"), *body.lines[4:]])
        await settled(pilot)
        assert work.done["_drawn"] == 1
        shown_by_key = work.done["show"]
        await press(pilot, "up")
        assert work.done["show"] - shown_by_key <= 2, "kernel and verdict, once each"


def test_a_terminal_that_goes_away_without_a_signal_ends_the_session(run: RunFolder) -> None:
    terminal = Watched(run)
    try:
        terminal.send(b"n", until=lambda screen: "Keys that came before" in screen)  # from now on they count
        for _ in range(2):
            terminal.send(b"?", until=lambda screen: "escape goes back" in screen)
            terminal.send(b"\x1b", until=lambda screen: "escape goes back" not in screen)
            terminal.send(b"h", until=lambda screen: "What shall be done?" in screen)
            terminal.send(b"\x1b", until=lambda screen: "What shall be done?" not in screen)
        newest = f"a{len(run.attempts()) - 1}"
        terminal.send(b"", until=lambda screen: f"2 kernel: {newest}" in screen)
        terminal.send(b"\x1b[A", until=lambda screen: f"2 kernel: {newest}" not in screen)
        terminal.close()
        assert terminal.process.wait(PATIENCE) is not None
    finally:
        terminal.process.kill()


def test_the_story_takes_lines_of_every_kind_it_does_not_know() -> None:
    story = Story()
    story.take({"event": "something_new", "v": 2})
    assert story.version == 1 and story.state == "running"


def test_attempts_of_coders_at_once_stand_at_their_own_hypotheses() -> None:
    """Whichever is judged first."""
    story = Story()
    for change in ("first", "second"):
        story.take({"event": "hypothesis", "iteration": 1, "change": change, "parent": "a0"})
    for attempt, slot in (("a1", 1), ("a2", 0)):
        about = {"attempt": attempt, "iteration": 1, "parent": "a0", "outcome": "kept"}
        story.take({"event": "attempt_judged", "turn": f"0001-coder-{slot}", **about})
    ideas = {name: tried.idea.change for name, tried in story.attempts.items() if tried.idea is not None}
    assert ideas == {"a1": "second", "a2": "first"}


# --- beside a run in another process, and without a screen ------------------------------------------------------------


async def test_an_attached_session_and_the_command_steer_one_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = started(tmp_path)
    app = Noting(driver.run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: len(app.session.story.attempts) > 1)
        await press(pilot, "p")
        await until(pilot, lambda: app.session.story.state == "paused")
        await press(pilot, "d")
        assert is_over(app)
    assert driver.is_alive, "who leaves does not take the run along"
    assert steer(driver.run, action_of(["hint", "rows", "are", "short"]), patience=None, as_json=False) == 0
    assert capsys.readouterr().out.startswith("hint: rows are short (nobody reads it: builtin:autotune reads no hints")
    assert steer(driver.run, action_of(["pin", "a99"]), patience=None, as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["event"] == "steer_refused"
    app = Noting(driver.run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.hints == ["rows are short"])
        assert app.session.story.state == "paused"
    assert steer(driver.run, action_of(["stop"]), patience=None, as_json=False) == 0
    driver.join(PATIENCE)
    assert not driver.is_alive and driver.error is None
    capsys.readouterr()
    assert steer(driver.run, action_of(["pause"]), patience=None, as_json=False) == 0
    assert "will heed it" in capsys.readouterr().out


async def test_an_attached_session_hears_two_coders_apart_as_they_speak(run: RunFolder) -> None:
    """What another process adds to the file is shown within a look; who was there before is shown at once."""
    (run.path / SPOKEN).write_text("")
    app = Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        pane = app.session.query_one(WordsPane)
        await until(pilot, lambda: any("Nobody spoke" in line.plain for line in pane.body.lines))

        async def hears(*said: tuple[int, str, bool]) -> list[str]:
            with (run.path / SPOKEN).open("a") as file:
                for slot, text, over in said:
                    told = {"role": "coder", "turn": f"0003-coder-{slot}", "text": text, "over": over}
                    file.write(json.dumps(told) + "\n")
            before = pane.voices.version
            await until(pilot, lambda: pane.voices.version >= before + len(said))
            app.session.look()
            return [line.plain for line in pane.body.lines]

        await hears((0, "I unroll ", False), (1, "I \x1b[31mtile\n", False))
        lines = await hears((0, "by four.", True), (1, "by 64.", False))
        first, second = (lines.index(f"coder {n} of iteration 3") for n in (0, 1))
        assert lines[first + 1] == "I unroll by four." and lines[second + 2] == "by 64."
        assert "tile" in lines[second + 1] and "\x1b" not in lines[second + 1]
        lines = await hears((0, "Next I try flags.", False))
        assert lines.count("coder 0 of iteration 3") == 2, "another reply is another one"
        assert "Next I try flags." in shown(app)


async def test_a_run_that_waits_at_its_limit_is_lifted_by_the_key(tmp_path: Path) -> None:
    settings = RunSettings(budgets=Budgets(iterations=1, near_limit=None), pause_at_limit=True)
    config: dict[str, Any] = {"settings": settings.model_dump(mode="json"), "command": ["warpsmith", "session"]}
    asked = Prepared(TASK, settings, StubExecutor(seconds_of), configure(Asked(), {}, tmp_path), {})
    driver = Driver(asked, RunFolder.create(tmp_path / "runs", "stub", config))
    driver.start()
    app = Noting(driver.run, driver)
    story = app.session.story
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: story.at_limit is not None)
        assert "WAITS AT A LIMIT" in shown(app) and story.iteration == 1
        await press(pilot, "d")
        await until(pilot, lambda: any("waits at a limit" in text for text in notified(app)))
        for key, text in (("h", "hint rows are short"), ("l", "budget iterations=1"), ("l", "budget iterations=3")):
            await press(pilot, key)
            await write(pilot, text)
        await until(pilot, lambda: story.at_limit is not None and story.iteration == 3)
        refused = [line for line in driver.run.events() if line["event"] == "steer_refused"]
        assert [line["action"] for line in refused] == ["budget"] and story.hints == ["rows are short"]
        await press(pilot, "q", "y")
        await until(pilot, lambda: not driver.is_alive)
    assert driver.error is None and (RunFolder(driver.run.path).outcome() or {})["iterations"] == 3


async def test_a_run_whose_process_is_gone_is_said_to_have_stopped(run: RunFolder) -> None:
    """Also one that waited at its limit; and it goes on as soon as a process has it again."""
    log = run.path / "events.jsonl"
    told = [line for line in log.read_text().splitlines() if json.loads(line)["event"] not in ("stopping", "run_ended")]
    log.write_text("\n".join(told) + "\n")
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.state == "stopped")
        await press(pilot, "p")
        await until(pilot, lambda: any("warpsmith resume" in text for text in notified(app)))
        with Journal(log, lambda _: None) as journal:
            await until(pilot, lambda: app.session.story.state == "running")
            journal.tell("run_paused", reason="iterations", go_on="")
            await until(pilot, lambda: app.session.story.state == "waits at a limit")
        await until(pilot, lambda: "STOPPED" in shown(app))


def test_without_a_terminal_a_session_is_lines(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert not has_screen()
    assert attach_to(str(run.path), run.path.parent, plain=False, as_json=False) == 0
    assert "the run ended" in capsys.readouterr().out
    assert attach_to(str(run.path), run.path.parent, plain=False, as_json=True) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines][-1] == "run_ended"
    EventLines().show(Event(event="plan_waits", fields={"iteration": 1, "hypotheses": []}, bound={"run": "x"}))
    assert json.loads(capsys.readouterr().out) == {"event": "plan_waits", "run": "x", "iteration": 1, "hypotheses": []}


def test_a_session_takes_the_limits_that_optimize_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []
    monkeypatch.setattr("app.session_start.start_session", lambda request, **_: asked.append(request) or 0)
    words = ("--device-time", "1h", "--samples", "2", "--parallel", "3", "--pause-at-limit", "--patience", "7")
    for options in ((), words):
        done = CliRunner().invoke(cli_steer.app, ["session", str(tmp_path), *options])
        assert done.exit_code == 0, done.output
    plain, limited = asked
    assert (plain.samples, plain.parallel, plain.pause_at_limit, plain.limits) == (1, 1, False, RunLimits())
    assert (limited.samples, limited.parallel, limited.pause_at_limit) == (2, 3, True)
    assert limited.limits == RunLimits(device_time="1h", patience=7)


def test_a_session_is_about_one_run(tmp_path: Path) -> None:
    for task, attach in ((None, None), (tmp_path, "latest")):
        with pytest.raises(WarpsmithError):
            require_one(task, attach)


# --- a real run -------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(900)
async def test_a_real_run_is_steered_from_the_keyboard_to_its_end(
    tmp_path: Path, editor: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real compiler, judge and worker: approve a plan, edit a kernel, fork, ask, accept."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saxpy.py").write_text(SAXPY)
    (tmp_path / "saxpy.cpp").write_text(KERNEL)
    task = read_task(tmp_path / "saxpy.py")
    settings = RunSettings(budgets=Budgets(iterations=6, near_limit=None), approve=True)
    run = RunFolder.create(tmp_path / "runs", task.name, {"task": task.model_dump(mode="json")})
    asked = Prepared(task, settings, LocalExecutor(), configure(Asked(), os.environ, tmp_path), {})
    driver = Driver(asked, run)
    driver.start()
    app = Noting(run, driver)
    story = app.session.story
    editor(r"sed -i 's/2 \* args.x\[i\]/args.x[i] + args.x[i]/' " + '"$1"')
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: bool(story.waiting), "a plan that waits")
        assert "PLAN WAITS FOR YOU" in shown(app)
        keep_terminal(app, "160x48-plan-waits")
        await press(pilot, "1", "b", "e")
        await write(pilot, "add instead of multiply")
        await until(pilot, lambda: any(a.person for a in story.attempts.values()), "a kernel by hand")
        mine = next(a for a in story.attempts.values() if a.person)
        assert (mine.person, mine.parent) == ("add instead of multiply", "a0") and mine.outcome != "rejected", mine.note
        await press(pilot, "slash")
        await write(pilot, "ask how does it stand?")
        await until(pilot, lambda: bool(story.answers), "an answer")
        await press(pilot, "a", "X", "1")  # the export is judged while the run's own judge works
        await write(pilot, "out")
        await until(pilot, lambda: any(i.attempts for i in story.ideas), "an approved hypothesis")
        await until(pilot, lambda: story.exports[0].doing is None, "an export")
        assert story.exports[0].status == "accepted", story.exports[0].words
        exported = {path.name for path in (tmp_path / "out").iterdir()}
        assert exported == {"kernel.cpp", "task.h", "build.json", "README.md"}
        by_command = ["-m", "app.start", "export", str(run.path), "a0", "--no-check", "--out", "bare"]
        process = await asyncio.create_subprocess_exec(sys.executable, *by_command)
        await until(pilot, lambda: len(story.exports) == 2, "an export by the command")
        assert await process.wait() == 0 and story.exports[1].words.startswith("a0 as sources: not judged again")
        await press(pilot, "w")
        await press(pilot, "y")
        await until(pilot, lambda: story.ended is not None, "an end")
        await settled(pilot)
        log = [line.plain for line in app.session.query_one(LogPane).body.lines]
        assert any("you asked: how does it stand?" in line for line in log)
        assert sum("was exported as sources" in line for line in log) == 2
        keep_terminal(app, "160x48-ended")
        await press(pilot, "q")
        assert is_over(app)
    driver.join(PATIENCE)
    assert driver.error is None and not driver.is_alive
    outcome = RunFolder(run.path).outcome()
    assert outcome is not None and outcome["reason"] == "user" and outcome["best"] is not None


async def test_leaving_a_run_asks_first_and_ends_it_in_order(tmp_path: Path) -> None:
    driver = started(tmp_path)
    app = Noting(driver.run, driver)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: len(app.session.story.attempts) > 1)
        await press(pilot, "p")
        await until(pilot, lambda: app.session.story.state == "paused")
        await press(pilot, "q", "n")
        assert app.session.dialog is None and app.session.leaving is None and driver.is_alive
        await press(pilot, "q", "y")
        await until(pilot, lambda: not driver.is_alive)
    assert (RunFolder(driver.run.path).outcome() or {}).get("reason") == "user"
