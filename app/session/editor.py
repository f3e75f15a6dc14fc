"""The person's own editor, on the files of a kernel or on a plan."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from tools.errors import WarpsmithError
from tools.records import ENTRY_FILE, Language


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
    """Open these files in it and wait. Raises WarpsmithError when it can't be started or fails."""
    command = [*editor(), *map(str, paths)]
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        raise WarpsmithError(
            f"{command[0]} can't be started: {error.strerror}", "Set $EDITOR to your editor."
        ) from error
    if code:
        raise WarpsmithError(f"{command[0]} ended with {code}", "Nothing was taken over.")


def edit_kernel(files: Mapping[str, str], language: Language, header: str | None) -> dict[str, str] | None:
    """The files as the person left them; None when nothing changed. `task.h` lies beside them to be read.

    Files that were added are taken, those that were removed are gone. Raises WarpsmithError, also when what a kernel
    begins with is gone.
    """
    with _folder() as folder:
        for name, text in files.items():
            path = folder / PurePosixPath(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if header is not None:
            (folder / "task.h").write_text(header, encoding="utf-8")
        entry = ENTRY_FILE[language]
        edit([folder / entry, *(folder / name for name in files if name != entry)])
        after = {p.relative_to(folder).as_posix(): _text(p) for p in sorted(folder.rglob("*")) if _is_source(p, entry)}
    if entry not in after:
        raise WarpsmithError(f"{entry} is no file any more", "Nothing was taken over.")
    return None if after == dict(files) else after


def edit_text(text: str, suffix: str) -> str | None:
    """The text as the person left it; None when nothing changed. Raises WarpsmithError."""
    with _folder() as folder:
        path = folder / f"plan{suffix}"
        path.write_text(text, encoding="utf-8")
        edit([path])
        after = _text(path)
    return None if after == text else after


@contextmanager
def _folder() -> Iterator[Path]:
    """For the editor's files, gone afterwards. WarpsmithError where they can't be written, or what is left be found."""
    try:
        with tempfile.TemporaryDirectory(prefix="warpsmith-", ignore_cleanup_errors=True) as made:
            yield Path(made)
    except OSError as error:
        raise WarpsmithError(
            f"the editor's files can't be written: {error.strerror or error}", "Set TMPDIR to a folder that has room."
        ) from error


_SOURCES = (".cpp", ".cc", ".cu", ".cuh", ".h", ".hpp", ".inc", ".py")


def _is_source(path: Path, entry: str) -> bool:
    """Not what an editor leaves beside a file."""
    return path.is_file() and path.name != "task.h" and (path.name == entry or path.suffix in _SOURCES)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WarpsmithError(f"{path.name} can't be read: {error}", "A kernel is UTF-8 text.") from error
