"""Kernels and plans that a person edits in a session: whatever the editor does, the screen comes back, what happened is
said, and nothing that was written is lost."""

from __future__ import annotations

import asyncio
import json
import tempfile
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from session_pilot import Noting, given, notified, press, settled, shown, started, stub_run, until, write
from session_terminal import Watched

from app.session.panes import LogPane
from app.session_start import left_behind
from app.steer import steer
from app.steer_words import action_of
from memory.runs import RunFolder

ASKED = "What is it about?"
WAITING = {"change": "a tile of 64", "idea": "fewer trips", "metric": "seconds", "expected": "-5 %", "parent": "a0"}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """One that no process works on, and whose plan waits."""
    run = asyncio.run(stub_run(tmp_path, iterations=1))
    log = run.path / "events.jsonl"
    kept = [line for line in log.read_text().splitlines() if json.loads(line)["event"] not in ("stopping", "run_ended")]
    last = json.loads(kept[-1])
    idea = last | {"event": "hypothesis", "iteration": 2, "lessons": [], "kind": "tiling"} | WAITING
    waits = last | {"event": "plan_waits", "iteration": 2, "hypotheses": [WAITING]}
    log.write_text("\n".join([*kept, json.dumps(idea), json.dumps(waits)]) + "\n")
    return run


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], None]]:
    """Sets $EDITOR to a script with these commands, `$1` being the file; None takes the script away."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VISUAL", "./ed")

    def set_to(commands: str | None) -> None:
        path = tmp_path / "ed"
        path.unlink(missing_ok=True)
        if commands is not None:
            path.write_text(f"#!/bin/sh\n{commands}\n")
            path.chmod(0o755)

    yield set_to


FAILS = [
    (None, "./ed can't be started: No such file or directory", False),
    ("chmod 644 ./ed; exec ./ed", "./ed ended with 126", False),
    ("exit 1", "./ed ended with 1", False),
    ('echo "// more" >> "$1"; exit 1', "./ed ended with 1", True),
    ("kill -9 $$", "./ed was ended by SIGKILL", False),
    ('rm "$1"', "is no file any more", False),
    ('rm "$1"; mkdir "$1"', "is no file any more", False),
    ('rm -r "$(dirname "$1")"', "is no file any more", False),
    ('ln -sf /nowhere "$1"', "is no file any more", False),
    (': > "$1"', "was left empty", False),
    ("printf '\\377\\376' > \"$1\"", "can't be read as UTF-8 text", True),
]


@pytest.mark.parametrize("key", ["e", "E"])
async def test_whatever_the_editor_does_is_said_and_what_it_left_is_kept(
    run: RunFolder, editor: Callable[[str | None], None], key: str
) -> None:
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        session = app.session
        await until(pilot, lambda: session.plan.idea is not None)
        for script, said, kept in FAILS:
            editor(script)
            app.clear_notifications()
            await press(pilot, key)
            assert session.dialog is None
            (told,) = notified(app)
            assert said in told and (f"kept: {key} on " in told) is kept, script
            assert kept or "Nothing was taken over" in told, script
            if kept:
                await press(pilot, key)
                assert session.choose.is_open
                editor("true")
                await press(pilot, "2")
        (run.path.parent / "ed").chmod(0o644)
        await press(pilot, key)
        assert any("Permission denied" in text for text in notified(app))
    assert given(run) == [] and left_behind(app) == [] and not list(run.path.parent.glob("warpsmith-*"))


async def test_what_was_left_or_refused_is_offered_again_until_the_run_took_it(
    run: RunFolder, editor: Callable[[str | None], None]
) -> None:
    app = Noting(run)
    async with app.run_test(size=(100, 30)) as pilot:
        session = app.session
        await until(pilot, lambda: session.plan.idea is not None)
        editor('echo "// mine" >> "$1"')
        await press(pilot, "e")
        assert ASKED in shown(app)
        await press(pilot, "escape")
        assert any("not given" in text and "starts over" in text for text in notified(app))
        editor("true")
        await press(pilot, "e", "escape")
        assert session.dialog is None
        await press(pilot, "e", "1")
        await write(pilot, "a remark")
        edit = given(run)[0]
        assert edit["files"]["kernel.cpp"].endswith("// mine\n") and edit["defines"] is edit["flags"] is None

        editor('echo "[{" > "$1"')
        await press(pilot, "E")
        assert any("not valid JSON" in text and "kept: E on" in text for text in notified(app))
        other = json.dumps([WAITING | {"parent": "a77"}])
        editor(f"cat > \"$1\" <<'END'\n{other}\nEND")
        await press(pilot, "E", "1")
        assert given(run)[1]["hypotheses"][0]["parent"] == "a77"
        editor("true")
        await press(pilot, "E")
        assert session.dialog is None and "nothing was changed" in notified(app), "the run has what was written"
        _answer(run, "steer_refused", 1, action="plan", message="there is no attempt a77", advice="")
        await until(pilot, lambda: any("a77" in text and "kept: E on" in text for text in notified(app)))
        await press(pilot, "E", "1")
        assert given(run)[2] == given(run)[1]
        _answer(run, "steered", 2, action="plan", iteration=2, about={"decided": 2})
        await until(pilot, lambda: not session.story.waiting)
        editor('echo "// other" >> "$1"')
        await press(pilot, "e")
        await press(pilot, "escape")
    (words,) = left_behind(app)
    folder = Path(words.rpartition(": ")[2])
    assert words.startswith("kept      what you wrote of a") and "// other" in (folder / "kernel.cpp").read_text()
    assert list(run.path.parent.glob("warpsmith-*")) == [folder]


def _answer(run: RunFolder, event: str, place: int, **fields: Any) -> None:
    """What the run's process says of a command."""
    log = run.path / "events.jsonl"
    command = json.loads((run.path / "commands.jsonl").read_text().splitlines()[place])
    line = json.loads(log.read_text().splitlines()[-1]) | {"event": event, "id": command["id"], **fields}
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")


async def test_a_kernel_by_hand_is_judged_as_its_text_has_it_from_either_side(
    tmp_path: Path, editor: Callable[[str | None], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """An attempt that was built with a setting, and whose text gives another now: by the key and by the command."""
    driver = started(tmp_path)
    app = Noting(driver.run)
    story = app.session.story
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: any(tried.idea and "BLOCK=" in tried.change for tried in story.attempts.values()))
        await press(pilot, "p")
        await until(pilot, lambda: story.state == "paused")
        name = next(name for name, tried in story.attempts.items() if tried.idea and "BLOCK=" in tried.change)
        app.session.plan.choose(name)
        await until(pilot, lambda: app.session.plan.chosen == name)
        editor("sed -i 's/#define BLOCK 8/#define BLOCK 48/' \"$1\"")
        await press(pilot, "e")
        await write(pilot, "blocks of 48")
        await until(pilot, lambda: any(tried.person for tried in story.attempts.values()))
        log = app.session.query_one(LogPane).body
        await until(pilot, lambda: any("with BLOCK=48 as its text has it" in line.plain for line in log.lines))
        await settled(pilot)
    run = RunFolder(driver.run.path)
    mine = next(attempt for attempt in run.attempts() if attempt.person)
    text = str(mine.kernel["files"]["kernel.cpp"])  # type: ignore[index, call-overload]
    assert "#define BLOCK 48" in text and "BLOCK" not in mine.kernel["defines"]  # type: ignore[operator]
    (tmp_path / "mine.cpp").write_text(text)
    assert steer(run, action_of(["edit", str(tmp_path / "mine.cpp"), name]), patience=None, as_json=False) == 0
    assert f"is {mine.id}, which was judged before, with BLOCK=48 as its text has it" in capsys.readouterr().out
    assert steer(run, action_of(["stop"]), patience=None, as_json=False) == 0
    driver.join()
    assert driver.error is None


def test_in_a_real_terminal_the_screen_comes_back_from_any_editor(
    run: RunFolder, editor: Callable[[str | None], None]
) -> None:
    editor(None)
    terminal = Watched(run)

    def sees(keys: bytes, *words: str) -> None:
        terminal.send(keys, until=lambda screen: all(word in screen for word in ("6 log", *words)))

    def comes_back(key: bytes, script: str | None, said: str) -> None:
        """The panes, the note, and keys that count."""
        editor(script)
        sees(key, said)
        sees(b"h", "What shall be done?")
        terminal.send(b"\x1b", until=lambda screen: "What shall be done?" not in screen)

    try:
        sees(b"n", "Keys that came before")
        sees(b"", "STOPPED")  # from now on it is known that no process works on the run
        comes_back(b"e", None, "can't be started")
        comes_back(b"e", "exit 1", "ended with 1")
        comes_back(b"E", "stty raw -echo; printf '\\033[?1049h'; kill -9 $$", "SIGKILL")
        comes_back(b"E", 'rm "$1"', "is no file any more")
        comes_back(b"e", "printf '\\377' > \"$1\"", "can't be read as UTF-8")
        editor('echo "// mine" > "$1"')
        sees(b"e", "go on")
        sees(b"1", ASKED)
        sees(b"\x1b", "was not given")
        editor("true")
        sees(b"e", "go on")
        sees(b"1", ASKED)
        sees(b"by hand\r", "No process works on the run")
        comes_back(b"E", 'echo "[" > "$1"', "not valid JSON")
        editor(f"cat > \"$1\" <<'END'\n{json.dumps([WAITING | {'expected': '-9 %'}])}\nEND")
        sees(b"E", "go on")
        sees(b"1", "No process works on the run")
        edit, plan = given(run)
        assert (edit["files"], edit["note"], edit["defines"]) == ({"kernel.cpp": "// mine\n"}, "by hand", None)
        assert plan["hypotheses"][0]["expected"] == "-9 %"
        assert terminal.left_by(b"q") & termios.ECHO, "its own settings again"
    finally:
        terminal.process.kill()
