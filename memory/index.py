"""A full-text index (SQLite FTS5) over code and prose: what a run wrote, what is known, what the user handed over.

Words are split the way programmers search (`memory.words`). Queries are plain words; FTS5's own query syntax never
reaches the engine. Ranking is BM25. A query never scores more than about `MOST_SCORED` passages: words that occur
nearly everywhere are left out while rarer ones are there, since they cost most and say least. The index holds the words
without their text (a contentless table), so that a passage is on disk once.

Not covered: meaning (no embeddings) and files on disk: `memory.documents` reads those.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from memory.passages import Document, Passage, passages_of
from memory.words import spaced, words_of
from memory.write_ahead import BUSY_SECONDS, write_ahead

VERSION: Final = 1
"""Of the tables and of how words are split. It is part of an index file's name: an old file is not read, only left."""
QUERY_WORDS: Final = 32
"""Further words of a query are ignored."""
TITLE_WEIGHT: Final = 3.0
MOST_SCORED: Final = 4_000
"""Passages that one query may score; each costs one to three microseconds."""
COPIES: Final = 10
"""So many passages are ranked for each that is wanted, since those with one text count once."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sources (name TEXT PRIMARY KEY, stamp TEXT NOT NULL, note TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS passages (
  id INTEGER PRIMARY KEY, source TEXT NOT NULL, path TEXT NOT NULL, first INTEGER, last INTEGER,
  title TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS passages_of_source ON passages (source);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (
  title, body, content='', tokenize="porter unicode61 remove_diacritics 2 tokenchars '_'"
);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """All that one source (a file, a run) holds now. An unchanged `stamp` means that nothing of it changed."""

    source: str
    stamp: str
    documents: Sequence[Document] = ()
    note: str = ""
    """Why there are no documents, or fewer than there could be."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that fits a query: lines `first_line` to `last_line` (from 1, inclusive) of `path`; without lines when
    the document has none of its own."""

    path: str
    first_line: int | None
    last_line: int | None
    title: str
    text: str
    score: float
    """BM25, larger is better; comparable within one query of one index only."""


class Index:
    """Documents, searchable at once after they were put in. In memory without a `path`. Safe to use from several
    threads and, with a path, from several processes. Raises sqlite3.Error when the file can't be used."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path or ":memory:", timeout=BUSY_SECONDS, check_same_thread=False)
        self._db.isolation_level = None
        write_ahead(self._db)
        self._db.execute("PRAGMA synchronous = NORMAL")
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
        """Index `documents`, each a source of its own; returns how many were new or changed."""
        return self.put(Entry(document.path, _digest(document), (document,)) for document in documents)

    def put(self, entries: Iterable[Entry]) -> int:
        """Index `entries` in one transaction, each in place of what its source held; returns how many were new or
        changed. One whose stamp is known costs nothing, also when another process put it in meanwhile."""
        with self._lock, _Writing(self._db):
            return sum(self._put(entry) for entry in entries)

    def restamp(self, source: str, stamp: str) -> None:
        """What `source` holds is what belongs to `stamp` as well."""
        with self._lock, _Writing(self._db):
            self._db.execute("UPDATE sources SET stamp = ? WHERE name = ?", (stamp, source))

    def remove(self, sources: Iterable[str]) -> None:
        """Forget what these sources hold, where they are known."""
        with self._lock, _Writing(self._db):
            for source in sources:
                self._remove(source)

    def stamps(self) -> dict[str, str]:
        """The stamp of every source."""
        with self._lock:
            return dict(self._db.execute("SELECT name, stamp FROM sources"))

    def notes(self) -> dict[str, str]:
        """Of the sources that have one."""
        with self._lock:
            return dict(self._db.execute("SELECT name, note FROM sources WHERE note != '' ORDER BY name"))

    def count(self) -> int:
        """Passages."""
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM passages").fetchone()[0])

    def search(self, query: str, limit: int) -> list[Hit]:
        """At most `limit` passages that hold any of the query's words, best first; of passages with one text, the best.
        No words: no hits."""
        words = list(dict.fromkeys(words_of(query)))[:QUERY_WORDS]
        if not words or limit < 1:
            return []
        with self._lock:
            expression = self._expression(words)
            ranked = self._db.execute(
                "SELECT id, score FROM (SELECT rowid AS id, -bm25(words, ?) AS score FROM words WHERE words MATCH ? "
                "LIMIT ?) ORDER BY score DESC, id LIMIT ?",
                (TITLE_WEIGHT, expression, MOST_SCORED, COPIES * limit),
            )
            return self._fetch(ranked, limit)

    def _expression(self, words: list[str]) -> str:
        """The query in FTS5's words: the rarest that together stay below `MOST_SCORED` passages.

        When even the rarest occurs more often, all words are asked for at once; when no passage has them all, the
        rarest alone is, and only the first passages that hold it are scored.
        """
        counts = sorted((self._occurrences(f'"{word}"'), i) for i, word in enumerate(words))
        counts = [(count, i) for count, i in counts if count] or counts[:1]
        total, chosen = 0, []
        for count, i in counts:
            total += count
            if total > MOST_SCORED:
                break
            chosen.append(f'"{words[i]}"')
        if chosen:
            return " OR ".join(chosen)
        every = " AND ".join(f'"{words[i]}"' for _, i in counts)
        return every if self._occurrences(every) else f'"{words[counts[0][1]]}"'

    def _occurrences(self, expression: str) -> int:
        """In how many passages; counting ends a little above `MOST_SCORED`."""
        row = self._db.execute(
            "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)", (expression, MOST_SCORED + 1)
        )
        return int(row.fetchone()[0])

    def _fetch(self, ranked: Iterable[tuple[int, float]], limit: int) -> list[Hit]:
        hits: list[Hit] = []
        seen: set[str] = set()
        for identity, score in ranked:
            path, first, last, title, body = self._db.execute(
                "SELECT path, first, last, title, body FROM passages WHERE id = ?", (identity,)
            ).fetchone()
            if body not in seen:
                seen.add(body)
                hits.append(Hit(path, first, last, title, body, score))
            if len(hits) == limit:
                break
        return hits

    def _put(self, entry: Entry) -> bool:
        known = self._db.execute("SELECT stamp FROM sources WHERE name = ?", (entry.source,)).fetchone()
        if known == (entry.stamp,):
            return False
        self._remove(entry.source)
        self._db.execute("INSERT INTO sources VALUES (?, ?, ?)", (entry.source, entry.stamp, entry.note))
        for document in entry.documents:
            for passage in passages_of(document):
                lines = (passage.first, passage.last) if document.numbered else (None, None)
                row = self._db.execute(
                    "INSERT INTO passages (source, path, first, last, title, body) VALUES (?, ?, ?, ?, ?, ?)",
                    (entry.source, document.path, *lines, passage.title, passage.body),
                )
                self._db.execute(
                    "INSERT INTO words (rowid, title, body) VALUES (?, ?, ?)",
                    (row.lastrowid, *_indexed(document.path, passage)),
                )
        return True

    def _remove(self, source: str) -> None:
        """A contentless table forgets a row only when it is told the very words that went in."""
        rows = self._db.execute("SELECT id, path, title, body FROM passages WHERE source = ?", (source,)).fetchall()
        for identity, path, title, body in rows:
            self._db.execute(
                "INSERT INTO words (words, rowid, title, body) VALUES ('delete', ?, ?, ?)",
                (identity, *_indexed(path, Passage(0, 0, title, body))),
            )
        self._db.execute("DELETE FROM passages WHERE source = ?", (source,))
        self._db.execute("DELETE FROM sources WHERE name = ?", (source,))


def index_file(folder: Path, kind: str, key: str) -> Path:
    """Where the index of `kind` over what `key` names is kept below `folder`, which is made when it is missing."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{kind}-{VERSION}-{hashlib.sha256(key.encode(errors='surrogatepass')).hexdigest()[:16]}.sqlite"


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether the file is no index any more, so that it is best removed and built again."""
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def remove_index(path: Path) -> None:
    """Remove an index file with what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


class _Writing:
    """A transaction that takes the write lock when it begins, so that two processes never deadlock half way."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._db.in_transaction:
            self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _indexed(path: str, passage: Passage) -> tuple[str, str]:
    """The words of a passage's title, with those of the last two parts of its path, and of its text."""
    where = " ".join(path.split("/")[-2:])
    return spaced(f"{where} {passage.title}"), spaced(passage.body)


def _digest(document: Document) -> str:
    return hashlib.sha256(f"{document.title}\0{document.text}".encode(errors="surrogatepass")).hexdigest()
