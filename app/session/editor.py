"""The person's own editor."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.errors import WarpsmithError


def editor() -> list[str]:
    """The editor's command: $VISUAL, $EDITOR, or vi. Raises WarpsmithError when it can't be read."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise WarpsmithError(f"$EDITOR can't be read: {error}", "Set it to a command: export EDITOR=nano") from error
    if not words:
        raise WarpsmithError("$EDITOR names no command", "Set it to one: export EDITOR=nano")
    return words


def edit(paths: Sequence[Path]) -> None:
    """Open these files in it and wait. Raises WarpsmithError when it can't be started or does not end well."""
    command = editor()
    try:
        with _terminal_kept():
            code = subprocess.run([*command, *map(str, paths)], check=False).returncode
    except OSError as error:
        why = f"{command[0]} can't be started: {error.strerror or error}"
        raise WarpsmithError(why, "Set $EDITOR to your editor.") from error
    if code < 0:
        raise WarpsmithError(f"{command[0]} was ended by {_signal(-code)}")
    if code:
        raise WarpsmithError(f"{command[0]} ended with {code}")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def _terminal_kept() -> Iterator[None]:
    """Ctrl-C is for the editor alone within it, and the terminal's settings are afterwards what they were: one that was
    killed leaves its own."""
    entry = sys.__stdin__
    terminal = entry.fileno() if entry is not None and entry.isatty() else None
    settings = None if terminal is None else termios.tcgetattr(terminal)
    keys = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, before in keys.items():
            signal.signal(number, before)
        if terminal is not None and settings is not None:
            with suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSADRAIN, settings)
