"""A folder that is there whole or not at all: it is written beside its place and gets its name last.

Signals that ask the process to end wait until that is done, which takes milliseconds. Not covered: SIGKILL leaves a
hidden folder `.warpsmith-export-…` with what was written, which is in nobody's way.
"""

from __future__ import annotations

import secrets
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final

from memory.files import flush, write_failure
from tools.errors import WarpsmithError

DRAFT: Final = ".warpsmith-export-"
"""What the name of a folder begins with that is not whole yet."""
_ASK_TO_END: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def write_folder(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the files, by their paths below `folder`, and say where that is from the root. Raises WarpsmithError,
    with nothing left behind, for a folder that is not empty and for what can't be written.

    A folder that is there and empty stays the same folder: what is at its top gets its names one after the other.
    """
    refuse_what_is_there(folder)
    with _in_words(folder), _not_ended(), ExitStack() as undo:
        place = folder.resolve()
        _make_parents(place, undo)
        _write(place, files, undo)
        undo.pop_all()
    return place


def refuse_what_is_there(folder: Path) -> None:
    """Raises WarpsmithError for a folder that is not empty, a file, and what can't be looked at."""
    with _in_words(folder):
        is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_free:
        raise WarpsmithError(f"{folder} is there already", "Name another place with --out.")


@contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        advice = "Nothing of it was left there. Make room, or name another place with --out."
        raise WarpsmithError(write_failure(folder, error).message, advice) from error


def _make_parents(place: Path, undo: ExitStack) -> None:
    for parent in [path for path in reversed(place.parents) if not path.exists()]:
        parent.mkdir(exist_ok=True)
        undo.callback(_remove_empty, parent)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # another process uses it by now
        folder.rmdir()


def _write(place: Path, files: Mapping[str, str], undo: ExitStack) -> None:
    is_there = place.is_dir()
    draft = (place if is_there else place.parent) / f"{DRAFT}{secrets.token_hex(4)}"
    draft.mkdir()
    undo.callback(shutil.rmtree, draft, ignore_errors=True)
    for name, text in files.items():
        path = draft / PurePosixPath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        flush(path)
    if not is_there:
        draft.rename(place)
        return
    for path in sorted(draft.iterdir()):
        named = path.rename(place / path.name)
        undo.callback(named.rename, path)
    draft.rmdir()


@contextmanager
def _not_ended() -> Iterator[None]:
    """What asks the process to end meanwhile does so afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ASK_TO_END)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
