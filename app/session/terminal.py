"""How keys come from the terminal: with which others at once, and an escape that nothing follows is told after a
fortieth of a second.

Textual waits for `ESCDELAY`, but looks ten times a second whether it is over, so that it is a tenth at least. Terminals
that know the newer way of telling keys (kitty, foot, WezTerm, Ghostty) have no such wait at all.
"""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from textual import constants
from textual._parser import ParseError
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, Key
from textual.message import Message

ESCAPE_WAIT: Final = 0.025
"""Seconds after an escape until it counts as the key and not as the beginning of an arrow's: on the same machine all
of that comes at once. Over a network the library's own tenth of a second stays, and `ESCDELAY` (milliseconds) where it
is set."""
_LOOK_EVERY: Final = 0.1
"""Seconds between two looks whether the input is to end."""
_AT_ONCE: Final = 4096
"""Bytes that are read at once."""
_TOGETHER: Final = 0.005
"""Seconds between two reads of which the second goes on with what came with the first. Nobody types so fast, and a key
that is held down comes every thirtieth of a second."""


@dataclass
class Burst:
    """Keys that came at once."""

    keys: int = 0
    is_text: bool = False
    """One came that is no command to look, so that what follows may be more of a text."""
    is_spent: bool = False
    """The text was handed in: what follows in it is for nobody."""
    is_told: bool = False
    """The person knows that not all of it counted."""


def burst_of(event: Event) -> Burst:
    """What that key came with."""
    found = vars(event).get("burst")
    return found if isinstance(found, Burst) else Burst(1)


def shorten_escape() -> None:
    """Let the library wait that long where the terminal is near."""
    if not any(name in os.environ for name in ("ESCDELAY", "SSH_CONNECTION", "SSH_TTY")):
        vars(constants)["ESCAPE_DELAY"] = ESCAPE_WAIT


class Keys(LinuxDriver):
    """As in Textual, but that an escape's wait is over when it is over, that each key knows with what it came, and that
    the screen is as large as the terminal is: the environment may hold what another one once was."""

    _burst = Burst()
    _read_at = 0.0

    def _get_terminal_size(self) -> tuple[int, int]:
        with suppress(OSError):
            found = os.get_terminal_size(self.fileno)
            if found.columns and found.lines:
                return found
        return super()._get_terminal_size()

    def run_input_thread(self) -> None:
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")().decode
        try:
            while not self.exit_event.is_set():
                until = parser._timeout_time
                wait = _LOOK_EVERY if until is None else max(0.0, min(until - get_time(), _LOOK_EVERY))
                if select.select([self.fileno], [], [], wait)[0]:
                    text = decode(os.read(self.fileno, _AT_ONCE))
                    events = list(parser.feed(text)) if text else []
                    self._mark(events)
                    for event in events:
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
        finally:
            with suppress(EOFError, ParseError):
                list(parser.feed(""))

    def _mark(self, events: Sequence[Message]) -> None:
        """Tell the keys among these that they came at once."""
        keys = [event for event in events if isinstance(event, Key)]
        now = get_time()
        if now - self._read_at > _TOGETHER:
            self._burst = Burst()
        if keys:
            self._read_at = now
            self._burst.keys += len(keys)
        for key in keys:
            vars(key)["burst"] = self._burst
