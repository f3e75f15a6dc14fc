"""Files that are either whole or not there, and errors that say what to do."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Clean: TypeAlias = Callable[[str], str]
"""Takes out of a text what must not be written."""


def as_it_is(text: str) -> str:
    """Nothing must not be written."""
    return text


class RunFolderError(Exception):
    """The run folder can't be used or written: `message` (one sentence) and `advice`."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(f"{message}. {advice}".rstrip() if advice else message)
        self.message = message
        self.advice = advice


_FAILURES: dict[int, tuple[str, str]] = {
    errno.ENOSPC: (
        "the disk is full",
        "Free some space; nothing written so far is lost.",
    ),
    errno.EDQUOT: ("the disk quota is used up", "Free some space; nothing written so far is lost."),
    errno.EROFS: ("the file system is read-only", "Choose another place with --runs."),
    errno.EACCES: ("permission is denied", "Choose a folder that you may write with --runs."),
    errno.EPERM: ("the operation is not permitted", "Choose a folder that you may write with --runs."),
    errno.ENOTDIR: ("part of the path is a file, not a folder", "Choose another place with --runs."),
}


def write_failure(path: Path, error: OSError) -> RunFolderError:
    """What a person reads when `path` could not be written."""
    why, advice = _FAILURES.get(error.errno or 0, (error.strerror or str(error), "Check the disk."))
    return RunFolderError(f"can't write {path}: {why}", advice)


def write_atomically(path: Path, text: str) -> None:
    """`path` then holds `text`, or what it held before. Makes missing folders. Raises `RunFolderError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            os.close(descriptor)
            Path(temporary).write_text(text, encoding="utf-8")
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise write_failure(path, error) from error


def link_atomically(path: Path, target: str) -> None:
    """`path` is then a symbolic link to `target`, without a moment in which it is missing. Raises `RunFolderError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(path)
    except OSError as error:
        raise write_failure(path, error) from error


def read_text(path: Path) -> str:
    """The text of `path`; `RunFolderError` when it can't be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"can't read {path}: {error}", "The run folder may be incomplete.") from error
