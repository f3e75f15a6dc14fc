"""The append-only past of a run: texts by content hash, what each model turn said, what gave way in a prompt.

The graph's state refers to texts by id, so that a checkpoint stays small however long the run.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TypeAlias

from pydantic import JsonValue

from memory.files import Clean, RunFolderError, as_it_is, read_text, write_atomically, write_failure

Line: TypeAlias = dict[str, JsonValue]


class Blobs:
    """Texts under `folder`, named by the first 32 hex digits of their SHA-256. Writing the same text twice is free."""

    def __init__(self, folder: Path, clean: Clean = as_it_is) -> None:
        self.folder = folder
        self._clean = clean

    def put(self, text: str, durable: bool = False) -> str:
        """Store `text` and return its id. durable: it survives a power cut from now on."""
        text = self._clean(text)
        name = _name(text)
        path = self._path(name)
        if durable or not self.holds(name):
            write_atomically(path, text, durable)
        return name

    def get(self, name: str) -> str:
        """The text of that id; `RunFolderError` when it is gone or not what was stored."""
        path = self._path(name)
        text = read_text(path)
        if _name(text) != name:
            raise RunFolderError(f"{path} is not the text that was stored there", "The run folder is damaged.")
        return text

    def holds(self, name: str) -> bool:
        """Whether the text of that id is there, whole."""
        try:
            self.get(name)
        except RunFolderError:
            return False
        return True

    def put_json(self, value: JsonValue) -> str:
        return self.put(json.dumps(value, ensure_ascii=False, sort_keys=True))

    def get_json(self, name: str) -> JsonValue:
        value: JsonValue = json.loads(self.get(name))
        return value

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Evicted:
    """Texts that had to give way in a prompt, one file each, so that `search` and a person still find them."""

    def __init__(self, folder: Path, clean: Clean = as_it_is) -> None:
        self.folder = folder
        self._clean = clean

    def put(self, text: str) -> str:
        """Store `text`; its path within the run folder, the same for the same text."""
        text = self._clean(text)
        name = f"{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}.txt"
        path = self.folder / name
        if not path.exists():
            write_atomically(path, text.encode(errors="replace").decode())
        return f"{self.folder.name}/{name}"


class JsonLines:
    """JSON objects, one a line, only ever added; each is on the disk before the run goes on. A torn last line, left by
    a kill, is passed over."""

    def __init__(self, path: Path, clean: Clean = as_it_is) -> None:
        self.path = path
        self._clean = clean
        self._lines: list[Line] | None = None

    def lines(self) -> list[Line]:
        """All lines so far, in the order in which they were added."""
        if self._lines is None:
            self._lines = [line for raw in self._raw().split("\n") if (line := _object(raw)) is not None]
        return list(self._lines)

    def _raw(self) -> str:
        """What the file holds; a character that a kill cut in two is replaced."""
        try:
            return self.path.read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise RunFolderError(f"can't read {self.path}: {error}", "The run folder may be incomplete.") from error

    def add(self, line: Line) -> None:
        if self._lines is None:
            self._lines = self.lines()
        text = self._clean(json.dumps(line, ensure_ascii=False))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                torn = file.tell() > 0 and (file.seek(-1, 2), file.read(1))[1] != b"\n"
                file.write((("\n" if torn else "") + text + "\n").encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise write_failure(self.path, error) from error
        self._lines.append(line)


class Transcript:
    """One model turn as JSON lines, for people and for training sets. Lines are only ever added."""

    def __init__(self, path: Path, clean: Clean = as_it_is) -> None:
        self.path = path
        self._clean = clean

    def lines(self) -> list[Line]:
        """What was written so far; nothing when the turn has not begun."""
        return JsonLines(self.path).lines()

    def add(self, line: Line) -> None:
        text = self._clean(json.dumps(line, ensure_ascii=False))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError as error:
            raise write_failure(self.path, error) from error


def _object(raw: str) -> Line | None:
    try:
        value = json.loads(raw)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
