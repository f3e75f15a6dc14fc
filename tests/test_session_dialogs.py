"""What a session asks over its panes: who gets the keys and the mouse meanwhile, and where the focus goes after it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from session_pilot import (
    Noting,
    clicked,
    given,
    notified,
    press,
    resized,
    settled,
    shown,
    stub_run,
    until,
    write,
)
from test_session_drawing import Seen
from textual.events import Key, Paste
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Input

from app.session.app import SessionApp
from app.session.exports import Choice, Exportable
from app.session.over import Dialog
from memory.runs import RunFolder

OPENED = {"h": "write", "slash": "write", "colon": "write", "l": "write", "w": "sure", "X": "choose"}
"""Keys, and the dialog that each opens."""
CHOICES = (
    Choice("sources", "its files", None, None),
    Choice("torch-op", "a package", "no compiler is here " * 12, None),
    *(Choice("kernelbench", "one file", None, f"not judged, {n}") for n in range(7)),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return asyncio.run(stub_run(tmp_path_factory.mktemp("asked")))


@pytest.fixture
def run(finished: RunFolder, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of which something can be exported; a test hands it nothing."""
    monkeypatch.setattr("app.session.wheel.exportable", lambda *_: Exportable("local", "stub", CHOICES))
    return finished


async def opened(pilot: Pilot[None], app: SessionApp, key: str) -> Dialog[object]:
    """The dialog that the key opens."""
    await press(pilot, key)
    dialog = app.session.dialog
    assert dialog is getattr(app.session, OPENED[key]) and dialog.has_focus_within
    return dialog


async def test_a_dialog_alone_hears_keys_and_gives_the_focus_back(run: RunFolder) -> None:
    app = Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        session = app.session
        await until(pilot, lambda: session.story.ended is not None)
        for pane, key in zip("123456", OPENED, strict=True):
            await press(pilot, pane)
            before, seen = session.focused, shown(app).split("\n")
            await opened(pilot, app, key)
            await press(pilot, "tab", "shift+tab", "f2", "pageup", "ctrl+l")
            assert session.dialog is not None and session.dialog.has_focus_within
            await press(pilot, "p", "k", "z")
            assert not session.shows_one and not (run.path / "commands.jsonl").exists()
            await press(pilot, "escape")
            assert session.dialog is None and session.focused is before and len(app.screen_stack) == 2
            assert shown(app).split("\n")[1:20] == seen[1:20], "the same panes"


async def test_the_plan_shows_where_the_keys_come_back_to(run: RunFolder) -> None:
    """Its cursor is bright while it has the focus, and while a dialog has it only for a moment; dim when another pane
    has it, also where it was drawn bright before."""
    app = Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and app.session.plan.chosen is not None)

        async def colour(*keys: str) -> str:
            await press(pilot, *keys)
            plan = app.session.plan
            row = app.session._compositor.render_strips()[plan.region.y + plan.cursor_line - plan.scroll_offset.y]
            return str(next(iter(row.crop(plan.region.x + 4, plan.region.x + 5))).style)

        bright, dim = await colour("1"), await colour("2")
        assert bright != dim
        assert [await colour("1"), await colour("h"), await colour("escape"), await colour("2")] == [bright] * 3 + [dim]
        assert [await colour("h"), await colour("escape"), await colour("1")] == [dim, dim, bright]


async def test_a_mouse_finds_nothing_beside_a_dialog(run: RunFolder) -> None:
    app = Noting(run)
    async with app.run_test(size=(160, 48), notifications=True) as pilot:
        session = app.session
        await until(pilot, lambda: session.story.ended is not None)
        for key in ("h", "w", "X"):
            dialog = await opened(pilot, app, key)
            session.notify("a note beside it")
            await until(pilot, lambda: "a note beside it" in shown(app))
            for beside in ((1, 5), (159, 10), (3, 40)):
                assert await clicked(pilot, *beside)
                assert session.get_widget_at(*beside)[0] is session
            assert dialog.is_open and dialog.has_focus_within
            inside, _ = session.get_widget_at(dialog.region.x + 3, dialog.region.y + 1)
            assert dialog in inside.ancestors
            row = next(n for n, line in enumerate(shown(app).split("\n")) if "a note beside it" in line)
            await clicked(pilot, shown(app).split("\n")[row].index("a note beside it"), row)
            await until(pilot, lambda: "a note beside it" not in shown(app), "a note taken away")
            assert dialog.is_open and dialog.has_focus_within
            await press(pilot, "escape")
        await opened(pilot, app, "X")
        place = session.choose._list.region
        await clicked(pilot, place.x + 4, place.y + 1)
        await until(pilot, lambda: "torch-op does not apply" in shown(app), "a choice by mouse")
        assert given(run) == []


async def test_a_choice_is_drawn_in_one_frame_a_key(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it needs no scroll bar."""
    monkeypatch.setattr("app.session.wheel.exportable", lambda *_: Exportable("local", "stub", CHOICES[:3]))
    app = Seen(run, (160, 48))
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and app.session.plan.chosen is not None)
        await settled(pilot)
        for key in ("X", "down", "down", "home", "escape", "X", "end", "escape"):
            before = app.frames
            await press(pilot, key)
            assert app.frames - before == 1 and app.text == app.whole, key


async def test_keys_that_count_over_everything(run: RunFolder) -> None:
    """ctrl+q leaves the dialog and not the session; the palette offers no second dialog."""
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        for key in ("h", "w", "X"):
            await opened(pilot, app, key)
            assert list(app.get_system_commands(app.screen)) == []
            await pilot.press("ctrl+p")
            await until(pilot, lambda: len(app.screen_stack) == 3, "the palette")
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 2)
            await settled(pilot)
            assert app.session.dialog is not None and app.session.dialog.has_focus_within
            await press(pilot, "ctrl+q")
            assert app.session.dialog is None
        assert app.is_running and given(run) == []


@pytest.mark.parametrize("key", ["h", "colon", "w", "X"])
async def test_a_dialog_fits_a_terminal_that_changes(run: RunFolder, key: str) -> None:
    app = Noting(run)
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        dialog = await opened(pilot, app, key)
        first = within(dialog.region, shown(app))
        for size in ((80, 24), (40, 12), (30, 8), (160, 48)):
            await resized(pilot, *size)
            assert Region(0, 0, *size).contains_region(dialog.region) and dialog.size.width > 0
            assert dialog.region.width == min(dialog.WIDTH, size[0] * 96 // 100)
            if key == "X":
                choices = app.session.choose._list
                strips = (choices.render_line(y).text for y in range(choices.virtual_size.height))
                assert "no compiler is here no" in " ".join(" ".join(strips).split()), "nothing is cut"
                assert choices.virtual_size.width == choices.scrollable_content_region.width
            focused = app.session.focused
            assert focused is not None and focused.region.overlaps(dialog.region) and dialog.has_focus_within
        assert within(dialog.region, shown(app)) == first, "the same as at first"


def within(region: Region, screen: str) -> list[str]:
    """Of what is shown, what lies there: behind it the session goes on."""
    lines = screen.split("\n")[region.y : region.bottom]
    return [line[region.x : region.right] for line in lines]


async def test_a_line_keeps_what_is_written_while_the_terminal_changes(run: RunFolder, tmp_path: Path) -> None:
    app = Noting(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await opened(pilot, app, "h")
        await press(pilot, *"rows ")
        await resized(pilot, 160, 48)
        await press(pilot, *"are")
        line = app.session.query_one("#line", Input)
        assert line.value == "hint rows are" and "hint rows are" in shown(app)
        await press(pilot, "escape", "h")
        assert app.session.dialog is not None and line.value == "hint ", "nothing of what was left"
        await press(pilot, "escape", "X")
        assert app.session.choose.is_open
        await press(pilot, "enter")
        assert app.session.write.is_open and line.value.endswith("-sources"), "the second question"
        await press(pilot, "escape")
        assert app.session.dialog is None and app.session.focused is app.session.plan


async def test_a_question_that_is_asked_again_answers_the_first(run: RunFolder) -> None:
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        first = asyncio.create_task(app.session.sure.ask("One?"))
        await until(pilot, lambda: "One?" in shown(app))
        second = asyncio.create_task(app.session.sure.ask("Two?"))
        await until(pilot, lambda: "Two?" in shown(app))
        assert await first is False and not second.done()
        await press(pilot, "y", "enter")
        assert await second is True and app.session.dialog is None


@pytest.fixture
def own(run: RunFolder, tmp_path: Path) -> RunFolder:
    """One that a test may give something to."""
    return RunFolder(shutil.copytree(run.path, tmp_path / run.id, symlinks=True))


async def test_all_that_is_pasted_is_one_harmless_line(own: RunFolder) -> None:
    app = Noting(own)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await opened(pilot, app, "h")
        line = app.session.query_one("#line", Input)
        line.post_message(Paste("a\r\n \x1b[31mb\x00\u202e\n\nc\td\n"))
        await until(pilot, lambda: line.value == "hint a [31mb c   d")
        await press(pilot, "enter")
        assert given(own) == [{"action": "hint", "text": "a [31mb c d"}]


@pytest.mark.parametrize("name", ["~nobody-has-this-name/x", "a\0b", "a\ud800b", "x" * 300, "/dev/null/x"])
async def test_a_folder_that_can_be_none_is_refused(own: RunFolder, name: str) -> None:
    app = Noting(own)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and app.session.plan.chosen is not None)
        await opened(pilot, app, "X")
        await press(pilot, "1")
        await until(pilot, lambda: app.session.write.is_open)
        await write(pilot, name)
        await until(pilot, lambda: any("can be no folder" in text for text in notified(app)))
        assert not app.session.story.exports


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("", "names no command"),
        ("no room", "can't be written"),
    ],
)
async def test_where_no_editor_can_be_opened_that_is_said(
    own: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, told: str
) -> None:
    script = tmp_path / "editor.sh"
    script.write_text(f"#!/bin/sh\n{command}\n")
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script) if command else "  ")
    app = Noting(own)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and app.session.plan.chosen is not None)
        if command == "no room":
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        await press(pilot, "e")
        await until(pilot, lambda: any(told in text for text in notified(app)))
        assert app.is_running and app.session.dialog is None and given(own) == []


async def test_a_long_remark_about_an_edit_is_cut(
    own: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "editor.sh"
    script.write_text('#!/bin/sh\necho "// mine" >> "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    app = Noting(own)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and app.session.plan.chosen is not None)
        await press(pilot, "e")
        await until(pilot, lambda: app.session.write.is_open)
        await write(pilot, "y" * 5_000)
        await until(pilot, lambda: [len(action["note"]) for action in given(own)] == [1_000])


def at_once(app: SessionApp, *typed: str) -> None:
    """Keys as a slow line brings them: all before the first one is heeded."""
    for key in typed:
        app.post_message(Key({" ": "space"}.get(key, key), key if len(key) == 1 else None))


async def test_what_is_typed_at_once_goes_where_it_is_meant_to(own: RunFolder) -> None:
    """Letters after the key that opens a line are no keys of the panes, nor are those between two dialogs."""
    app = Noting(own)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None and app.session.plan.chosen is not None)
        line = app.session.write._line
        at_once(app, "h", *"row x pkfa", "enter")
        await until(pilot, lambda: given(own) == [{"action": "hint", "text": "row x pkfa"}])
        at_once(app, "h")
        app.post_message(Paste("a\r\n \x1b[31mb\x00\u202e\n\nc\td\n"))
        at_once(app, *" e", "enter")
        await until(
            pilot, lambda: given(own)[1:] == [{"action": "hint", "text": "a [31mb c d e"}], "all that was pasted"
        )
        at_once(app, "w", "n", "X", "1", *"/fka")
        await until(pilot, lambda: line.value.endswith("-sources/fka"))
        at_once(app, "escape", "X", "enter", *"/pk", "escape", "home", "down", "f")
        second = list(app.session.story.attempts)[1]
        await until(pilot, lambda: given(own)[2:] == [{"action": "fork", "attempt": second}], "what the cursor is on")
        at_once(app, "question_mark", *"q", "h", "z")
        await until(pilot, lambda: line.value == "hint z")


async def test_a_line_that_can_not_be_used_is_asked_again_as_it_was_written(own: RunFolder) -> None:
    app = Noting(own)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await press(pilot, "m")
        await until(pilot, lambda: app.session.write.is_open)
        await until(pilot, lambda: "planner builtin:autotune" in " ".join(shown(app).split()))
        await write(pilot, "model nobody")
        await until(pilot, lambda: "not written like that" in " ".join(shown(app).split()))
        line = app.session.query_one("#line", Input)
        assert app.session.write.is_open and line.value == "model nobody" and not given(own)
        await press(pilot, "escape")
        assert not app.session.write.is_open and not given(own)
