"""Files that are either whole or not there, and errors that say what to do."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from pydantic import JsonValue

Json: TypeAlias = dict[str, JsonValue]
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


def write_atomically(path: Path, text: str, durable: bool = False) -> None:
    """`path` then holds `text`, or what it held before. Makes missing folders. Raises `RunFolderError`.

    durable: it does so also after a power cut, from now on. Costs some milliseconds.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            os.close(descriptor)
            Path(temporary).write_text(text, encoding="utf-8")
            Path(temporary).chmod(0o644)
            if durable:
                flush(Path(temporary))
            Path(temporary).replace(path)
            if durable:
                flush(path.parent)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise write_failure(path, error) from error


@contextmanager
def or_no_folder(path: Path) -> Iterator[None]:
    """A folder that was made just now goes again when what makes it one of ours can't be written."""
    try:
        yield
    except RunFolderError:
        with suppress(OSError):
            path.rmdir()
        raise


def new_folder(root: Path, kind: str, name: str, unnamed: str) -> Path:
    """Makes `<stamp>-<kind><name>` under `root`, unique even when two are made at once. Raises `RunFolderError`.

    name: anything; what a path can't hold becomes a dash. unnamed: stands for a name of which nothing is left.
    """
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or unnamed
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        path = root / (f"{stamp}-{kind}{word}" if number == 1 else f"{stamp}-{kind}{word}-{number}")
        try:
            root.mkdir(parents=True, exist_ok=True)
            path.mkdir()
        except FileExistsError:
            if root.is_dir():
                continue
            raise RunFolderError(f"{root} is a file, not a folder", "Choose another place with --runs.") from None
        except OSError as error:
            raise write_failure(path, error) from error
        return path
    raise RunFolderError(f"can't find a free name under {root}", "Try again in a second.")


def flush(path: Path) -> None:
    """What a file holds, or which names a folder has, survives a power cut from now on. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link_atomically(path: Path, target: str) -> None:
    """`path` is then a symbolic link to `target`, without a moment in which it is missing. Raises `RunFolderError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(path)
    except OSError as error:
        raise write_failure(path, error) from error


def open_plain(path: Path) -> BinaryIO:
    """A file to be read. OSError for what is none: a pipe would be waited for, and a device may have no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file")
    return os.fdopen(descriptor, "rb")


def read_text(path: Path) -> str:
    """The text of `path`; `RunFolderError` when it can't be read."""
    try:
        with io.TextIOWrapper(open_plain(path), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"can't read {path}: {error}", "The run folder may be incomplete.") from error


def as_json(value: Json) -> str:
    """`value` as it lies in a file that people read too."""
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def read_json(path: Path) -> Json:
    """The JSON object in `path`; `RunFolderError` when it can't be read or is none."""
    text = read_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} is not valid JSON: {error}", "The run folder may be damaged.") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{path} does not hold a JSON object", "The run folder may be damaged.")
    return value


def read_json_if_there(path: Path) -> Json | None:
    return read_json(path) if path.exists() else None


def remove(path: Path) -> None:
    """The file or folder is then gone, with all that it held. Raises `RunFolderError`."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise write_failure(path, error) from error
