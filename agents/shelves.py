"""The shelves of the library: what can be searched, each brought up to date when it is asked for.

`refresh` works for about so many seconds at most and says in a sentence what is missing or left out, if anything is.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from memory import past_runs
from memory.documents import Folder
from memory.index import Index, index_file, is_damaged, remove_index
from memory.lesson_store import LessonStore
from memory.passages import Document
from memory.past_runs import attempt_in_words
from memory.runs import Attempt, RunFolder
from tools.cache import cache_dir
from tools.errors import InfrastructureError
from tools.search import Found

RECENT: Final = 32
"""Attempts that are looked at anew, since a profile or a diagnosis may have joined them."""
RECHECK_SECONDS: Final = 60.0
"""So long folders and other runs are taken to be as they were."""


class Shelf(Protocol):
    """A part of the library."""

    def refresh(self, seconds: float) -> str: ...

    def search(self, query: str, limit: int) -> Sequence[Found]: ...

    def close(self) -> None: ...


class Texts:
    """A few texts in memory."""

    def __init__(self, texts: Callable[[], dict[str, str]]) -> None:
        self._texts = texts
        self._index = Index()

    def refresh(self, seconds: float) -> str:  # noqa: ARG002
        self._index.add(Document(path, text) for path, text in self._texts().items())
        return ""

    def search(self, query: str, limit: int) -> Sequence[Found]:
        return self._index.search(query, limit)

    def close(self) -> None:
        self._index.close()


class ThisRun:
    """All that this run tried: sources, verdicts in words, profiles, diagnoses, and what was evicted from prompts."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._index = Index()
        self._evicted_index = Index()
        self._evicted = Folder(run.path / "evicted", self._evicted_index, "evicted")
        self._known = 0

    def refresh(self, seconds: float) -> str:
        attempts = self._run.attempts()
        for attempt in attempts[max(0, self._known - RECENT) :]:
            self._index.add(self._documents(attempt))
        self._known = len(attempts)
        done = self._evicted.refresh(seconds)
        return f"{done.pending} evicted texts are not read yet; later searches see them" if done.pending else ""

    def search(self, query: str, limit: int) -> Sequence[Found]:
        return [*self._index.search(query, limit), *self._evicted.search(query, limit)]

    def close(self) -> None:
        self._index.close()
        self._evicted_index.close()

    def _documents(self, attempt: Attempt) -> list[Document]:
        """An attempt's files as they lie in the run folder, and the attempt in words."""
        folder = f"attempts/{attempt.id}"
        title = f"{attempt.id} {attempt.outcome}: {attempt.change}"
        files = attempt.kernel.get("files")
        texts = {f"kernel/{name}": str(text) for name, text in files.items()} if isinstance(files, dict) else {}
        profile = self._run.profile(attempt.id)
        if profile is not None:
            texts["profile.json"] = json.dumps(profile, indent=1, ensure_ascii=False)
        documents = [Document(f"{folder}/{name}", text, title) for name, text in texts.items()]
        return [*documents, Document(folder, attempt_in_words(self._run, attempt), title, numbered=False)]


class LessonShelf:
    """The lessons of all runs."""

    def __init__(self, store: LessonStore) -> None:
        self._store = store

    def refresh(self, seconds: float) -> str:  # noqa: ARG002
        return ""

    def search(self, query: str, limit: int) -> Sequence[Found]:
        return self._store.search(query, limit)

    def close(self) -> None:
        pass


class _Kept:
    """A shelf whose index is in the cache folder, shared by all runs; in memory where that can't be written."""

    def __init__(self, kind: str, key: str) -> None:
        self._kind, self._key = kind, key
        self._path: Path | None = None
        self._index = self._open()
        self._checked: float | None = None

    def refresh(self, seconds: float) -> str:
        now = time.monotonic()
        if self._checked is not None and now - self._checked < RECHECK_SECONDS:
            return ""
        try:
            complete, note = self._bring_up_to_date(seconds)
        except sqlite3.Error as error:
            if is_damaged(error) and self._path is not None:
                self._start_again()
            return f"the index of {self._kind} can't be brought up to date ({error})"
        self._checked = now if complete else None
        return note

    def search(self, query: str, limit: int) -> Sequence[Found]:
        return self._index.search(query, limit)

    def close(self) -> None:
        self._index.close()

    def _bring_up_to_date(self, seconds: float) -> tuple[bool, str]:
        """Whether all is indexed now, and what to say."""
        raise NotImplementedError

    def _open(self) -> Index:
        try:
            self._path = index_file(cache_dir() / "search", self._kind, self._key)
            return Index(self._path)
        except sqlite3.DatabaseError as error:
            if self._path is not None and is_damaged(error):
                remove_index(self._path)
                return Index(self._path)
        except (OSError, InfrastructureError):
            pass
        self._path = None
        return Index()

    def _start_again(self) -> None:
        self._index.close()
        if self._path is not None:
            remove_index(self._path)
        self._index = self._open()


class KeptFolder(_Kept):
    """A folder of headers or documents."""

    def __init__(self, kind: str, root: Path, shown_as: str) -> None:
        super().__init__(kind, str(root))
        self._root, self._shown_as = root, shown_as

    def search(self, query: str, limit: int) -> Sequence[Found]:
        return self._folder().search(query, limit)

    def _bring_up_to_date(self, seconds: float) -> tuple[bool, str]:
        folder = self._folder()
        done = folder.refresh(seconds)
        if done.pending is None:
            return False, f"{self._shown_as}: another run is reading it; what it has read so far was searched"
        if done.pending:
            left = f"{done.pending} of {done.files} files are not read yet; later searches see them"
            return False, f"{self._shown_as}: {left}"
        return True, folder.skipped() if self._kind == "documents" else ""

    def _folder(self) -> Folder:
        lock = None if self._path is None else self._path.with_suffix(".lock")
        return Folder(self._root, self._index, self._shown_as, lock)


class OtherRuns(_Kept):
    """What the other runs under the same root tried."""

    def __init__(self, run: RunFolder) -> None:
        root = run.path.resolve().parent
        super().__init__("other-runs", str(root))
        self._root, self._this = root, run.id

    def _bring_up_to_date(self, seconds: float) -> tuple[bool, str]:
        left = past_runs.refresh(self._index, self._root, self._this, seconds)
        return not left, f"{left} other runs are not read yet; later searches see them" if left else ""
