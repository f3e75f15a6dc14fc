"""Drives the screen of a session as a person does, and waits for what comes of it: on a condition always, so that no
test rests on how fast the machine is.

`until` is for what has to come. `settled` is for what must not: once everything that was begun is done, what is not
there will not come. What a process or a thread does, and what a person is asked, it does not wait for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from stub_executor import TASK, StubExecutor
from textual.message_pump import MessagePump
from textual.pilot import Pilot

from agents.drive import optimize
from agents.settings import Budgets, Models, RunSettings
from agents.steering_box import BOX
from app.configuration import Asked, configure
from app.optimize import Prepared
from app.session.app import SessionApp
from app.session.driver import Driver
from memory.runs import RunFolder
from tools.records import Kernel

PATIENCE: Final = 150.0
"""Seconds until something counts as not happening at all."""
_LOOK_EVERY: Final = 0.01
"""Seconds between two looks whether it happened."""
_ROUNDS: Final = 4
"""Of the loop, in each of which all is at rest: what one task hands to another is for a round of it in no queue."""


class Noting(SessionApp):
    """One whose notes stay until they are cleared: none is gone before a slow machine comes to look for it."""

    def notify(self, message: str, *, timeout: float | None = None, **about: Any) -> None:  # noqa: ARG002
        super().notify(message, timeout=10 * PATIENCE, **about)


async def until(pilot: Pilot[Any], holds: Callable[[], bool], what: str = "it") -> None:
    """Wait until that is so, and keys count."""
    app = pilot.app
    end = asyncio.get_running_loop().time() + PATIENCE
    while not (holds() and app.session.is_ready):
        assert app._exception is None, f"the session broke before {what}"
        assert asyncio.get_running_loop().time() < end, f"{what} did not happen; there is:\n{_seen(app)}"
        await asyncio.sleep(_LOOK_EVERY)


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until all that was pressed, clicked and posted so far has done what it does, and that is drawn."""
    app = pilot.app
    end, rounds = asyncio.get_running_loop().time() + PATIENCE, 0
    while rounds < _ROUNDS and not is_over(app):
        busy = next(_at_work(app), None)
        rounds = 0 if busy else rounds + 1
        assert asyncio.get_running_loop().time() < end, f"{busy}, without an end; there is:\n{_seen(app)}"
        await asyncio.sleep(_LOOK_EVERY if busy else 0)


def is_over(app: SessionApp) -> bool:
    """Whether it has ended, or is about to."""
    return app._exit or app._exception is not None or not app.is_running


def _at_work(app: SessionApp) -> Iterator[str]:
    """What is not done yet, in words."""
    if not app._typed.is_idle:
        yield "something typed waits for its turn"
    if app.session.is_about_to_ask:
        yield "an action is about to ask something"
    for screen in app.screen_stack:
        for pump in (app, *screen.walk_children(with_self=True)):
            if not _is_at_rest(pump):
                yield f"{pump} has something to do"
    screen = app.screen
    if screen._layout_required or screen._scroll_required or screen._repaint_required or screen._dirty_widgets:
        yield "something is to be drawn"
    if screen._callbacks:
        yield "something is to be done once all is drawn"


def _is_at_rest(pump: MessagePump) -> bool:
    """Whether it waits for a message and there is none. Textual's own `Pilot` asks only whether what it sends behind
    those that are there now came through: not for what those bring about, nor for what a timer is to draw."""
    queue = pump._message_queue
    waits = bool(queue.ready_event._waiters) and queue.empty()
    return pump._closed or (waits and pump._pending_message is None and not pump._next_callbacks)


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Each after the other, and wait until they did what they do."""
    await pilot.press(*keys)
    await settled(pilot)


async def clicked(pilot: Pilot[Any], column: int, line: int) -> bool:
    """There, as `Pilot.click`, and wait for what that does."""
    hit = await pilot.click(offset=(column, line))
    await settled(pilot)
    return hit


async def resized(pilot: Pilot[Any], columns: int, lines: int) -> None:
    """Another size of the terminal, as everything is arranged in it."""
    await pilot.resize_terminal(columns, lines)
    await settled(pilot)


async def write(pilot: Pilot[Any], text: str) -> None:
    """Into the line that is open, or is about to be, instead of what stands there; then enter."""
    line = pilot.app.session.write
    await until(pilot, lambda: line.is_open and line.has_focus_within, "a line to write in")
    line._line.value = text
    await press(pilot, "enter")


def follows(app: SessionApp) -> bool:
    """Whether the newest attempt is chosen."""
    return app.session.plan.chosen == next(reversed(app.session.story.attempts), None)


def given(run: RunFolder) -> list[dict[str, Any]]:
    """What was handed to the run, as JSON."""
    path = run.path / BOX
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["action"] for line in lines]


def shown(app: SessionApp) -> str:
    """All that is on the screen, as text."""
    screen = app.screen
    width, height = screen.size
    strips = screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips[:height])[: (width + 1) * height]


def _seen(app: SessionApp) -> str:
    """The same, also of one that has ended."""
    return "no screen any more" if is_over(app) else shown(app)


def notified(app: SessionApp) -> list[str]:
    """What pops up now."""
    return [note.message for note in app._notifications]


async def stub_run(root: Path, iterations: int = 4) -> RunFolder:
    """A run that the tuner drove."""
    run = RunFolder.create(root, "stub", {"task": {"kind": "numpy"}})
    settings = RunSettings(budgets=Budgets(iterations=iterations, near_limit=None, patience=None), models=Models())
    await optimize(TASK, settings, run, StubExecutor(seconds_of), lambda _: None)
    return run


def started(root: Path) -> Driver:
    """A run of two hundred iterations that measures nothing, in a thread."""
    settings = RunSettings(budgets=Budgets(near_limit=None))
    asked = Prepared(TASK, settings, StubExecutor(seconds_of), configure(Asked(), {}, root), {})
    driver = Driver(asked, RunFolder.create(root / "runs", "stub", {}))
    driver.start()
    return driver


def seconds_of(kernel: Kernel) -> float:
    return 1.0 / (1 + int(kernel.defines.get("BLOCK", 8)))
