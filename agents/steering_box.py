"""The commands of a run: JSON lines that anybody who owns the run folder may add, and that its process reads.

A line is whole or not there, and on the disk before `give` returns: a command that was given is heeded by the process
that works on the run, or by the next one. Who owns the folder may steer and nobody else: a file of another owner, or
one that others may write into, is not read. There is no network.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
import uuid
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Final

from pydantic import ValidationError

from agents.steering_actions import Action, Command, Exported
from memory.files import RunFolderError, write_failure
from memory.tail import Tail

BOX: Final = "commands.jsonl"
LONGEST: Final = 4 << 20
"""Bytes of a line."""


def new_command(action: Action | Exported) -> Command:
    """With an id of its own."""
    return Command(id=uuid.uuid4().hex[:12], at=time.time(), action=action)


def give(folder: Path, given: Action | Exported | Command) -> Command:
    """Add a command to a run folder. Raises RunFolderError when it can't be written or is too long."""
    command = given if isinstance(given, Command) else new_command(given)
    line = (command.model_dump_json() + "\n").encode()
    path = folder / BOX
    if len(line) > LONGEST:
        raise RunFolderError(f"the command has {len(line)} bytes", f"One may have {LONGEST >> 20} MiB.")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            _write_whole(descriptor, b"\n" + line if torn else line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise write_failure(path, error) from error
    return command


def _write_whole(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class Box:
    """The commands of a run as its process reads them, each once. `done`: ids that were answered before."""

    def __init__(self, folder: Path, done: Collection[str] = ()) -> None:
        self.path = folder / BOX
        self._tail = Tail(self.path)
        self._known = set(done)
        self.objection: str | None = None
        """Why the file is not read, once there is one that is not to be trusted."""

    def new(self) -> list[Command]:
        """Commands that came since the last look. What is no command is passed over. Raises RunFolderError."""
        if not self._is_trusted():
            return []
        found = []
        for line in self._tail.lines():
            command = _command(line)
            if command is not None and command.id not in self._known:
                self._known.add(command.id)
                found.append(command)
        return found

    def __enter__(self) -> Box:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tail.__exit__(kind, error, trace)

    def _is_trusted(self) -> bool:
        """Whether there is a file, and only the folder's owner can have written it."""
        try:
            found = self.path.lstat()
        except OSError:
            return False
        if not stat.S_ISREG(found.st_mode):
            self.objection = f"{BOX} is no plain file"
        elif found.st_uid not in (os.geteuid(), 0):
            self.objection = f"{BOX} belongs to another user"
        elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            self.objection = f"others may write into {BOX}"
        else:
            self.objection = None
        return self.objection is None


def _command(line: str) -> Command | None:
    try:
        return Command.model_validate(json.loads(line))
    except (ValueError, RecursionError, ValidationError):
        return None
