"""The append-only past of a run: texts by content hash, and what each model turn said.

The graph's state refers to these by id, so that a checkpoint stays small however long the run.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import JsonValue

from memory.files import read_text, write_atomically, write_failure


class Blobs:
    """Texts under `folder`, named by the first 32 hex digits of their SHA-256. Writing the same text twice is free."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, text: str) -> str:
        """Store `text` and return its id."""
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        path = self._path(name)
        if not path.exists():
            write_atomically(path, text)
        return name

    def get(self, name: str) -> str:
        """The text of that id; `RunFolderError` when it is gone."""
        return read_text(self._path(name))

    def put_json(self, value: JsonValue) -> str:
        return self.put(json.dumps(value, ensure_ascii=False, sort_keys=True))

    def get_json(self, name: str) -> JsonValue:
        value: JsonValue = json.loads(self.get(name))
        return value

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name


class Transcript:
    """One model turn as JSON lines, for people and for training sets. Lines are only ever added."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, line: dict[str, JsonValue]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError as error:
            raise write_failure(self.path, error) from error
