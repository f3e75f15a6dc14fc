"""How tests of a session wait: for what was begun, however long that takes, and never for a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from session_pilot import press, settled, stub_run, until
from textual.events import Key
from textual.widgets import Input

from app.session.app import SessionApp
from app.session.dialogs import Help
from memory.runs import RunFolder

SLOW = 0.2
"""Seconds that each step takes; far more than a test that hopes would wait."""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return asyncio.run(stub_run(tmp_path, iterations=1))


class Slow(SessionApp):
    """Takes its time between a key and its action, and for what a widget hears."""

    async def run_action(self, *args: object, **kwargs: object) -> bool:  # type: ignore[override]
        await asyncio.sleep(SLOW)
        return await super().run_action(*args, **kwargs)  # type: ignore[arg-type]


async def test_what_was_typed_is_done_when_all_is_settled(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Slow(run)
    async with app.run_test(size=(100, 30)) as pilot:
        session = app.session
        await until(pilot, lambda: session.plan.chosen is not None)
        for key in ("question_mark", "escape", "6"):
            app.post_message(Key(key, None))
        assert session._current == "plan"
        await settled(pilot)
        assert session._current == "log" and not session.is_helping
        came = Help.come

        async def comes_later(self: Help) -> None:
            await asyncio.sleep(SLOW)
            came(self, self.query_one("#help-body"))

        monkeypatch.setattr(Help, "open", lambda self: self.call_after_refresh(comes_later, self))
        await press(pilot, "question_mark")
        assert session.query_one(Help).has_focus_within and session.query_one(Help).region
        await press(pilot, "escape", "h", "a", "b")
        assert session.query_one("#line", Input).value == "hint ab"


def test_no_test_of_a_session_waits_for_a_time() -> None:
    for path in Path(__file__).parent.glob("*session*.py"):
        assert "pilot" + ".pause(" not in path.read_text(), path.name
