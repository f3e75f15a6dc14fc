"""Drives a run in a thread of its own, so that the screen answers whatever the run does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from agents.control import Control
from agents.drive import optimize
from agents.events import OnEvent
from agents.settings import Role
from app.optimize import Prepared
from memory.runs import RunFolder


@dataclass
class Driver:
    """One run, from its beginning to its end. Its events are read from the run folder like anybody's."""

    asked: Prepared
    run: RunFolder
    state: str | None = None
    on_event: OnEvent = field(default=lambda _: None)
    said: SimpleQueue[tuple[str, str]] = field(default_factory=SimpleQueue)
    """Pieces of models' replies as they come, by role."""
    error: BaseException | None = None
    """What ended the run out of order; read once `is_alive` is false."""
    _control: Control = field(default_factory=Control)
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None
    _on_end: Callable[[], None] = field(default=lambda: None)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="run", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self, at_once: bool = False) -> None:
        """End the run in order when the call that goes on is finished, or at once; what was found is kept."""
        if self._loop is not None and self.is_alive:
            how = (lambda: self._control.stop("user", 0.0)) if at_once else (lambda: self._control.finish("user"))
            try:
                self._loop.call_soon_threadsafe(how)
            except RuntimeError:
                return  # it ended meanwhile

    def join(self, seconds: float | None = None) -> None:
        """Wait until the run ended."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self) -> None:
        try:
            asyncio.run(self._drive())
        except BaseException as error:  # noqa: BLE001, told to the person once the screen is gone
            self.error = error

    async def _drive(self) -> None:
        self._loop = asyncio.get_running_loop()
        asked = self.asked
        try:
            await optimize(
                asked.task,
                asked.settings,
                self.run,
                asked.executor,
                self.on_event,
                control=self._control,
                connections=asked.configuration.connections,
                catalogue=asked.configuration.catalogue,
                on_text=self._say,
                state=self.state,
            )
        finally:
            await asked.executor.close()

    def _say(self, role: Role, piece: str) -> None:
        self.said.put((role, piece))
