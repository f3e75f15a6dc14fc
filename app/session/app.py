"""The session's terminal application: one screen, a palette of all actions, and how it ends."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar, Final

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver as TerminalDriver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, Key, Paste
from textual.screen import Screen
from textual.widget import Widget

from app.session.at_once import AtOnce
from app.session.driver import Driver
from app.session.keys import KEYS
from app.session.screen import SessionScreen
from app.session.terminal import Keys, shorten_escape
from app.session.typed import InTurn, Passed
from memory.runs import RunFolder

GRACE: Final = 3.0
"""Seconds that the screen has to put the terminal back once the run has ended."""


SEE_EVERY: Final = 1.0
"""Seconds between two looks whether the terminal is still there."""


class SessionApp(App[None]):
    """Sits beside a run."""

    TITLE = "warpsmith"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "screen.leave", "leave", show=False, priority=True)]
    CSS = "Toast { max-width: 70; padding: 0 1; margin-top: 0; }"

    def __init__(self, run: RunFolder, driver: Driver | None = None) -> None:
        super().__init__()
        self.animation_level = "none"
        self.session = SessionScreen(run, driver)
        self._typed = InTurn(
            super().on_event, self._typed_at, AtOnce(self.session).counts, lambda: self.session.is_about_to_ask
        )

    def get_driver_class(self) -> type[TerminalDriver]:
        found = super().get_driver_class()
        return Keys if found is LinuxDriver else found

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            await self._typed.take(event)
        else:
            await super().on_event(event)

    async def on_passed(self, message: Passed) -> None:
        await self._typed.passed(message)

    def _typed_at(self) -> Widget | None:
        """What has the focus, where that stays: the palette goes with the key that answers it."""
        return (self.focused or self.session) if self.screen is self.session else None

    def on_load(self) -> None:
        shorten_escape()

    def on_mount(self) -> None:
        self.push_screen(self.session)
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, self._end_in_order)
            self.set_interval(SEE_EVERY, self._see_terminal)

    def _see_terminal(self) -> None:
        """A terminal can go away without a signal, where it is not the one that the process was started from. Its end
        of file is read for ever then, by the library's thread, so it gets something to wait for instead."""
        entry = sys.__stdin__
        if entry is not None and is_gone(entry.fileno()):
            silent, self._never_written = os.pipe()
            os.dup2(silent, entry.fileno())
            self._end_in_order(signal.SIGHUP, None)

    def _end_in_order(self, number: int, _frame: object) -> None:
        """The terminal goes away, or the process is asked to: the run ends in order, as after the first Ctrl-C. A
        screen whose terminal is gone may hang amid a drawing, so the end does not rest on it."""
        if self.session.driver is not None:
            self.session.driver.stop()
        self.session.leaving = self.exit
        threading.Thread(target=self._end_without_screen, args=(number,), daemon=True).start()

    def _end_without_screen(self, number: int) -> None:
        if self.session.driver is not None:
            self.session.driver.join()
        time.sleep(GRACE)
        os._exit(128 + number)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """All keys by name, unless a dialog has them."""
        if isinstance(screen, SessionScreen) and screen.dialog is None:
            for key in KEYS:
                if key.key not in ("tab", "shift+tab", "ctrl+c"):
                    yield SystemCommand(f"{key.does} ({key.label})", key.group, self._calling(key.action))

    def _calling(self, action: str) -> Callable[[], Awaitable[None]]:
        async def call() -> None:
            await self.session.run_action(action)

        return call


def is_gone(terminal: int) -> bool:
    """Whether nobody is at the other end of that descriptor any more."""
    poll = select.poll()
    poll.register(terminal, select.POLLIN)
    return any(state & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, state in poll.poll(0))
