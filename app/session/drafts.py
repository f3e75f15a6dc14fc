"""What a person wrote in an editor and a run does not have yet.

Each draft is the folder that the editor was given. It stays until the run took it, or the person starts over: what was
refused, what the editor left when it failed, and what was left by Escape is offered again. When the session ends, what
is still not given stays on the disk.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from app.session.editor import edit
from tools.errors import WarpsmithError

_SOURCES = (".cpp", ".cc", ".cu", ".cuh", ".h", ".hpp", ".inc", ".py")


@dataclass
class Draft:
    """Files in an editor. about: what they are an edit of, in words. key: the key that opens them. before: what they
    were made from, path to text. entry: the one of them that has to be there."""

    about: str
    key: str
    before: Mapping[str, str]
    entry: str
    folder: Path
    command: str | None = None
    """The id of the command by which the run was given it, until the run answers."""

    def edit(self) -> dict[str, str] | None:
        """Open them in the person's editor: the files as they are then, None when they are as before all of it. Files
        that were added are taken, those that were removed are gone.

        Raises WarpsmithError when the editor fails, and when what it left can't be taken: nothing of it is lost, and
        where the entry file is gone or empty, what is missing is again what it was when the editor was opened.
        """
        entry = self.folder / self.entry
        opened = {path: path.read_bytes() for path in self._files()}
        others = [self.folder / name for name in self.before if name != self.entry]
        try:
            edit([entry, *(path for path in others if path.is_file())])
        finally:
            lost = _lost(entry)
            if lost is not None:
                _write_again(entry, opened)
        if lost is not None:
            raise WarpsmithError(f"{self.entry} {lost}")
        after = {path.relative_to(self.folder).as_posix(): _text(path) for path in self._files()}
        return None if after == dict(self.before) else after

    @property
    def is_changed(self) -> bool:
        """Whether something was written, readable or not."""
        try:
            after = {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in self._files()}
        except OSError:
            return True
        return after != {name: text.encode() for name, text in self.before.items()}

    def _files(self) -> list[Path]:
        """Without what an editor leaves beside them."""
        found = (path for path in sorted(self.folder.rglob("*")) if path.is_file() and path.name != "task.h")
        return [p for p in found if p.suffix in _SOURCES or p.relative_to(self.folder).as_posix() in self.before]


class Drafts:
    """Those of a session."""

    def __init__(self) -> None:
        self._drafts: list[Draft] = []

    def begin(self, about: str, key: str, before: Mapping[str, str], entry: str, beside: Mapping[str, str]) -> Draft:
        """A new one. beside: files to be read. Raises OSError when they can't be written."""
        draft = Draft(about, key, before, entry, Path(tempfile.mkdtemp(prefix="warpsmith-")))
        self._drafts.append(draft)
        try:
            for name, text in {**before, **beside}.items():
                path = draft.folder / PurePosixPath(name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode())
        except OSError:
            self.drop(draft)
            raise
        return draft

    def find(self, about: str, before: Mapping[str, str]) -> Draft | None:
        """The newest that was made from that and is not given."""
        found = (d for d in reversed(self._drafts) if d.command is None and (d.about, d.before) == (about, before))
        return next(found, None)

    def drop(self, draft: Draft) -> None:
        """The run has it, or the person does not want it."""
        if draft in self._drafts:
            self._drafts.remove(draft)
        shutil.rmtree(draft.folder, ignore_errors=True)

    def answered(self, command: str, took_it: bool) -> Draft | None:
        """The run answered that command: the draft that is not given any more because it was refused."""
        draft = next((draft for draft in self._drafts if draft.command == command), None)
        if draft is None:
            return None
        draft.command = None
        if took_it:
            self.drop(draft)
        return None if took_it else draft

    def close(self) -> list[Draft]:
        """The session ends: those that the run does not have; what it was given stands in its folder."""
        for draft in [draft for draft in self._drafts if draft.command is not None]:
            self.drop(draft)
        return list(self._drafts)


def _lost(entry: Path) -> str | None:
    """What became of an entry file that can't be taken; None for one that can."""
    with suppress(OSError):
        if entry.is_file():
            return None if entry.stat().st_size else "was left empty"
    return "is no file any more"


def _write_again(entry: Path, opened: Mapping[Path, bytes]) -> None:
    """The entry file, and of the others those that are gone."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
    for path, data in opened.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise WarpsmithError(f"{path.name} can't be read as UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise WarpsmithError(f"{path.name} can't be read: {error.strerror or error}") from error
