"""Drives a run in a thread of its own, so that the screen answers whatever the run does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from agents.control import Control
from agents.events import OnEvent
from app.driving import to_its_end
from app.optimize import Prepared
from app.report import write_report
from memory.files import RunFolderError
from memory.runs import RunFolder


@dataclass
class Driver:
    """One run, from its beginning to its end. Its events are read from the run folder like anybody's."""

    asked: Prepared
    run: RunFolder
    state: str | None = None
    on_event: OnEvent = field(default=lambda _: None)
    error: BaseException | None = None
    """What ended the run out of order; read once `is_alive` is false."""
    _control: Control = field(default_factory=Control)
    _is_to_stop: bool = False
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None
    _on_end: Callable[[], None] = field(default=lambda: None)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="run", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self, at_once: bool = False, why: str | None = None) -> None:
        """End the run in order when the call that goes on is finished, or at once; what was found is kept. A run that
        waits at its limit waits no longer. why: what its end is to say beside that a person stopped it."""
        self._is_to_stop = True
        self._control.message = why or self._control.message
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
        with self.run.alone():
            await to_its_end(
                asked.task,
                asked.settings,
                self.run,
                asked.executor,
                control=self._control,
                on_event=self.on_event,
                on_text=None,  # as the screen hears it, so does one in another process
                configuration=asked.configuration,
                state=self.state,
                changes=None,
                given_up=lambda: self._is_to_stop,
            )
            if not self._is_to_stop:  # who leaves gets it with the summary, and one that is handed over goes on
                with suppress(RunFolderError):  # what is wrong is said with the summary
                    write_report(RunFolder(self.run.path))
