"""The session's terminal application: one screen, a palette of all actions, and how it ends."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from app.session.driver import Driver
from app.session.keys import KEYS
from app.session.screen import SessionScreen
from memory.runs import RunFolder


class SessionApp(App[None]):
    """Sits beside a run."""

    TITLE = "warpsmith"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "screen.leave", "leave", show=False, priority=True)]
    CSS = "Toast { max-width: 70; }"

    def __init__(self, run: RunFolder, driver: Driver | None = None) -> None:
        super().__init__()
        self.animation_level = "none"
        self.session = SessionScreen(run, driver)

    def on_mount(self) -> None:
        self.push_screen(self.session)
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: self.call_later(self._end_in_order))

    def _end_in_order(self) -> None:
        """The terminal goes away, or the process is asked to: the run ends in order, as after Ctrl-C."""
        driver = self.session.driver
        if driver is None or not driver.is_alive:
            self.exit()
        else:
            self.session.leave_after(driver, self.exit)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """All keys by name."""
        if isinstance(screen, SessionScreen):
            for key in KEYS:
                if key.key not in ("tab", "shift+tab", "ctrl+c"):
                    yield SystemCommand(f"{key.does} ({key.label})", key.group, self._calling(key.action))

    def _calling(self, action: str) -> Callable[[], Awaitable[None]]:
        async def call() -> None:
            await self.session.run_action(action)

        return call
