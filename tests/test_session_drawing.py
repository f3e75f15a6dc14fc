"""What a session draws in parts, key by key, is what it would draw as a whole; and it takes one frame a key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from session_pilot import clicked, press, settled, stub_run, until
from session_terminal import Sheet
from textual._compositor import CompositorUpdate
from textual.geometry import Region, Size
from textual.pilot import Pilot
from textual.screen import Screen

from app.session.app import SessionApp
from app.session.board import places
from app.session.dialogs import Help
from app.session.keys import PANES
from memory.runs import RunFolder

SPELLS = ("6 b 1", "end 2 b 1", "z down z", "question_mark down escape", "2 v z 3", "5 6", "z up z", "n v 1 home z z")
SPELLS += (
    "1 h a escape 2",
    "1 up h escape",
    "colon p i backspace backspace",
    "escape 1 w n 3 1",
    "l escape w escape z",
)
"""Keys of every kind; some scroll a pane that has no place at that moment."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return asyncio.run(stub_run(tmp_path_factory.mktemp("drawn"), iterations=12))


class Seen(SessionApp):
    """A session whose drawing goes to a sheet of characters, as a terminal has it."""

    def __init__(self, run: RunFolder, size: tuple[int, int]) -> None:
        super().__init__(run)
        self._sheet = Sheet(*size)
        self.drawn: list[str] = []
        """What each frame wrote."""

    def _display(self, screen: Screen[Any], renderable: Any) -> None:  # noqa: ARG002
        if not isinstance(renderable, CompositorUpdate):
            return
        self.drawn.append(renderable.render_segments(self.console))
        self._sheet.write(self.drawn[-1])

    @property
    def frames(self) -> int:
        return len(self.drawn)

    @property
    def text(self) -> str:
        return self._sheet.text

    @property
    def whole(self) -> str:
        """The same, drawn anew without anything that was kept."""
        for widget in self.session.walk_children():
            widget._styles_cache.clear()  # type: ignore[attr-defined]
        return "\n".join(strip.text for strip in self.session._compositor.render_strips())


async def begun(pilot: Pilot[None], app: Seen) -> None:
    await until(pilot, lambda: app.session.story.ended is not None)
    app.session.write._line.cursor_blink = False  # a slow machine would see it amid a key
    await settled(pilot)


@pytest.mark.parametrize("size", [(80, 12), (160, 48)])
async def test_what_is_drawn_in_parts_is_what_the_whole_would_be(run: RunFolder, size: tuple[int, int]) -> None:
    app = Seen(run, size)
    async with app.run_test(size=size) as pilot:
        await begun(pilot, app)
        for spell in SPELLS:
            await press(pilot, *spell.split(" "))
            assert app.text == app.whole, spell
        await press(pilot, "question_mark")
        assert "escape goes back" in app.text
        await clicked(pilot, 1, 5)  # beside the help
        assert "escape goes back" not in app.text and app.text == app.whole


async def test_a_key_is_answered_in_one_frame(run: RunFolder) -> None:
    app = Seen(run, (160, 48))
    async with app.run_test(size=(160, 48)) as pilot:
        await begun(pilot, app)
        keys = "b 3 6 z z question_mark escape 1 up v v h a left escape w n colon p escape 2 h escape"
        for key in keys.split(" "):
            before = app.frames
            await press(pilot, key)
            assert app.frames - before == 1, (key, app.drawn[before:])


async def test_keys_of_the_screen_rest_while_the_help_is_open(run: RunFolder) -> None:
    app = SessionApp(run)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        await press(pilot, "question_mark", "p", "z", "2")
        assert app.session.query_one(Help).has_focus_within and app.session.focused is not app.session.plan
        assert not (run.path / "commands.jsonl").exists()
        await press(pilot, "enter", "2")
        assert app.session.focused is app.session.query_one("#kernel-body")


def test_panes_fill_the_board_without_overlap() -> None:
    for width, height in ((120, 28), (161, 47), (300, 100)):
        found = places(Size(width, height))
        assert len(found) == len(PANES)
        cells = [(x, y) for place in found.values() for x in place.column_range for y in place.line_range]
        assert len(cells) == len(set(cells)) == width * height
        assert all(Region(0, 0, width, height).contains_region(place) for place in found.values())
