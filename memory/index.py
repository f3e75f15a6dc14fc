"""A full-text index (SQLite FTS5) over code and prose: what a run wrote, what is known, what the user handed over.

Words are split the way programmers search: `_mm512_fmadd_pd`, `blockTile` and `-ffast-math` are found whole and by
their parts. Queries are plain words; FTS5's own query syntax never reaches the engine. Not covered: meaning (no
embeddings) and files on disk: the caller hands in the text.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

CHUNK_LINES: Final = 40
"""A passage never has more lines."""
BREAK_AFTER: Final = 10
"""A passage of at least so many lines ends at the next blank line."""
QUERY_WORDS: Final = 48
"""Further words of a query are ignored."""
TITLE_WEIGHT: Final = 3.0

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (path TEXT PRIMARY KEY, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS passages (
  id INTEGER PRIMARY KEY, path TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  title TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS passages_of_path ON passages (path);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (
  title, body, tokenize="porter unicode61 remove_diacritics 2 tokenchars '_'"
);
"""


@dataclass(frozen=True, slots=True)
class Document:
    """A text to be found. `path` is what a hit cites; adding a document again replaces the one of the same path."""

    path: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that fits a query: lines `first_line` to `last_line` (from 1, inclusive) of `path`."""

    path: str
    first_line: int
    last_line: int
    title: str
    text: str
    score: float
    """BM25, larger is better; comparable within one index only."""


def words_of(text: str) -> Iterator[str]:
    """The searchable words of `text` in lower case: every identifier whole, then its parts where it has several."""
    for word in _WORD.findall(text):
        whole = word.lower()
        yield whole
        parts = [part.lower() for part in _PART.findall(word)]
        if parts != [whole]:
            yield from parts
            yield from {piece for piece in whole.split("_") if piece} - set(parts) - {whole}


class Index:
    """Documents, searchable at once after `add`. In memory without a `path`. Safe to use from several threads."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path or ":memory:", check_same_thread=False)
        self._db.executescript(_SCHEMA)

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def add(self, documents: Iterable[Document]) -> int:
        """Index `documents`, replacing those of the same path; returns how many were new or changed."""
        with self._lock, self._db:
            return sum(self._add(document) for document in documents)

    def remove(self, path: str) -> None:
        """Forget the document of `path`, if it is there."""
        with self._lock, self._db:
            self._remove(path)

    def search(self, query: str, limit: int) -> list[Hit]:
        """At most `limit` passages that hold any of the query's words, best first. No words: no hits."""
        words = list(dict.fromkeys(words_of(query)))[:QUERY_WORDS]
        if not words or limit < 1:
            return []
        expression = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            rows = self._db.execute(
                "SELECT p.path, p.first, p.last, p.title, p.body, -bm25(words, ?) AS score "
                "FROM words JOIN passages p ON p.id = words.rowid WHERE words MATCH ? "
                "ORDER BY score DESC, p.path, p.first LIMIT ?",
                (TITLE_WEIGHT, expression, limit),
            ).fetchall()
        return [Hit(*row) for row in rows]

    def _add(self, document: Document) -> bool:
        digest = hashlib.sha256(f"{document.title}\0{document.text}".encode(errors="surrogatepass")).hexdigest()
        known = self._db.execute("SELECT digest FROM documents WHERE path = ?", (document.path,)).fetchone()
        if known == (digest,):
            return False
        self._remove(document.path)
        self._db.execute("INSERT INTO documents VALUES (?, ?)", (document.path, digest))
        for first, last, title, body in _passages(document):
            row = self._db.execute(
                "INSERT INTO passages (path, first, last, title, body) VALUES (?, ?, ?, ?, ?)",
                (document.path, first, last, title, body),
            )
            where = " ".join(words_of(f"{document.path} {title}"))
            self._db.execute(
                "INSERT INTO words (rowid, title, body) VALUES (?, ?, ?)",
                (row.lastrowid, where, " ".join(words_of(body))),
            )
        return True

    def _remove(self, path: str) -> None:
        self._db.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM passages WHERE path = ?)", (path,))
        self._db.execute("DELETE FROM passages WHERE path = ?", (path,))
        self._db.execute("DELETE FROM documents WHERE path = ?", (path,))


def _passages(document: Document) -> Iterator[tuple[int, int, str, str]]:
    """Cut a document into passages of whole lines (first, last, title, text).

    A short one stays whole; a long one is cut at Markdown headings, else at blank lines, else by length.
    """
    lines = document.text.encode(errors="replace").decode().splitlines()
    markdown = document.path.endswith(".md")
    title = document.title or next((_heading(line) for line in lines if markdown and line.startswith("#")), "")
    section, start = title, 0
    for number in range(1, len(lines) + 1):
        if number < len(lines) and not _ends(lines, start, number, markdown):
            continue
        if markdown and lines[start].startswith("#") and _heading(lines[start]) != title:
            section = f"{title} — {_heading(lines[start])}"
        body = "\n".join(lines[start:number])
        if body.strip():
            yield start + 1, number, section, body
        start = number


def _ends(lines: list[str], start: int, number: int, markdown: bool) -> bool:
    """Whether a passage that began at index `start` ends before the line at index `number`."""
    if len(lines) <= CHUNK_LINES:
        return False
    if number - start >= CHUNK_LINES or (markdown and lines[number].startswith("#")):
        return True
    return number - start >= BREAK_AFTER and not lines[number].strip()


def _heading(line: str) -> str:
    return line.lstrip("# ").strip()
