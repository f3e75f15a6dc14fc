"""What comes from the keyboard at once: typed ahead, pasted, or kept back by a slow line."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from session_pilot import PATIENCE, Noting, given, is_over, notified, press, settled, shown, stub_run, until
from textual.events import Key
from textual.pilot import Pilot

from app.session.app import SessionApp
from app.session.keys import KEYS
from app.session.screen import SessionScreen
from app.session.terminal import Burst
from app.session_start import attach_to
from bench.session import Terminal
from memory.runs import RunFolder

ASK = "What shall be done?"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return asyncio.run(stub_run(tmp_path, iterations=1))


def hints(run: RunFolder) -> list[str]:
    return [str(action.get("text", action["action"])) for action in given(run)]


def test_a_burst_from_a_real_terminal_goes_where_it_was_meant_to(run: RunFolder) -> None:
    terminal = Terminal(run)

    def is_given(*texts: str) -> bool:
        end = time.monotonic() + PATIENCE
        while hints(run) != list(texts) and time.monotonic() < end:
            terminal.press(b"", patience=0.05)
        return hints(run) == list(texts)

    try:
        assert terminal.type(b"pafk\rhtyped ahead\rXr\r", "Keys that came before", PATIENCE)
        assert terminal.type(b"hlong rows are memory bound\r", "The run has ended", PATIENCE)
        assert is_given("long rows are memory bound")
        assert terminal.type(b"hsome text", ASK, PATIENCE)
        assert terminal.type(b"\r", "The run has ended", PATIENCE) and is_given(
            *(texts := [hints(run)[0], "some text"])
        )
        for stray in (b"pause it for a while\r", b"for a\r", b"\x1b[Aa\r", b"kept at once"):
            assert terminal.type(stray, "Keys came at once", PATIENCE)
        assert terminal.type(b"\x1b[200~pfka\r\x1b[201~", "A paste counts", PATIENCE)
        assert terminal.type(b"hone line\rreject it\rapprove\r", "was for nobody", PATIENCE)
        assert is_given(*texts, "one line")
        assert terminal.type(b"h\x1b[200~two\nlines\x1b[201~\r", "The run has ended", PATIENCE)
        assert is_given(*texts, "one line", "two lines")
        time.sleep(0.05)  # as a person does: not amid the read before
        assert terminal.type(b"p", "The run has ended", PATIENCE) and is_given(*texts, "one line", "two lines", "pause")
    finally:
        terminal.process.kill()


async def typed(pilot: Pilot[None], *keys: str) -> None:
    """These, in one read of the terminal, and all that they do."""
    burst = Burst(len(keys))
    for key in keys:
        event = Key(key, key if len(key) == 1 else None)
        vars(event)["burst"] = burst
        pilot.app.post_message(event)
    await settled(pilot)


async def test_what_counts_of_keys_that_come_at_once(run: RunFolder) -> None:
    """None that acts on the run or ends it; those that look all do."""
    app = Noting(run)
    acting = [key for key in KEYS if key.counts == "alone"]
    assert {"approve", "pause", "fork", "pin", "leave", "accept", "edit"} <= {key.action for key in acting}
    async with app.run_test(size=(100, 30)) as pilot:
        session = app.session
        await until(pilot, lambda: session.is_ready and session.plan.chosen is not None)
        for key in acting:
            for keys in ((key.key, "t"), ("t", key.key)):
                await typed(pilot, *keys)
                assert session.dialog is None and app.is_running, key
            assert any("counts only alone" in text for text in notified(app)), key
            app.clear_notifications()
        await typed(pilot, "t", "h", "i", "s")
        assert session.dialog is None and "Keys came at once: h counts only first." in notified(app)
        await typed(pilot, "2", "z", "h", "p", "k")
        assert session.write._line.value == "hint pk" and session.shows_one
        await press(pilot, "escape")
        await typed(pilot, "question_mark", "escape", "6")
        assert not session.is_helping and session._current == "log"
        await press(pilot, "w")
        assert session.sure.is_open
        await typed(pilot, "y", "enter")
        assert session.sure.is_open and "Accept" in shown(app)
        await typed(pilot, "e", "n")
        assert session.dialog is None
    assert given(run) == []


async def test_keys_before_the_run_is_shown_do_nothing_but_leave(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionScreen, "_settle", lambda _: None)
    for keys, leaves in ((("p", "h", "q"), False), (("ctrl+c",), True)):
        app = Noting(run)
        async with app.run_test(size=(100, 30)) as pilot:
            await press(pilot, *keys)
            assert app.session.dialog is None and is_over(app) is leaves
    assert given(run) == []


@pytest.mark.parametrize(("ended", "said"), [(None, "goes on"), ("iterations", "")])
def test_who_leaves_a_run_that_goes_on_is_told_how_to_come_back(
    run: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ended: str | None,
    said: str,
) -> None:
    monkeypatch.setattr("app.session_start.has_screen", lambda: True)
    monkeypatch.setattr(SessionApp, "run", lambda app: setattr(app.session.story, "ended", ended))
    assert attach_to(str(run.path), run.path.parent, plain=False, as_json=False) == 0
    out = capsys.readouterr().out
    assert (f"warpsmith session --attach {run.id}" in out) is bool(said) and said in out
