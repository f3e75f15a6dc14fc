"""The SQLite file that lessons lie in: opened for each call, brought up to date, and read also where none may write.

The tables' version is `PRAGMA user_version`; an older file is brought up to date when it is first opened, one from a
newer warpsmith is refused and left alone. Not covered: a log beside the file that only a writer could read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from memory.words import spaced
from memory.write_ahead import BUSY_SECONDS, write_ahead

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE lessons (
          id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, claim TEXT NOT NULL, operation TEXT NOT NULL,
          says TEXT NOT NULL, target TEXT NOT NULL, chip TEXT NOT NULL, dtypes TEXT NOT NULL, shapes TEXT NOT NULL,
          bytes REAL NOT NULL, created REAL NOT NULL, used REAL
        )""",
        """CREATE TABLE evidence (
          lesson INTEGER NOT NULL REFERENCES lessons (id) ON DELETE CASCADE, run TEXT NOT NULL, attempt TEXT NOT NULL,
          reference TEXT, kind TEXT NOT NULL, ratio REAL, low REAL, high REAL, reason TEXT, at REAL NOT NULL,
          PRIMARY KEY (lesson, run, attempt)
        )""",
        "CREATE INDEX lessons_of_chip ON lessons (target, chip)",
    ),
    (
        """CREATE VIRTUAL TABLE words USING fts5 (
          claim, operation, tokenize="porter unicode61 remove_diacritics 2 tokenchars '_'"
        )""",
        "INSERT INTO words (rowid, claim, operation) SELECT id, spaced(claim), spaced(operation) FROM lessons",
    ),
    (  # runs of one task that begin in the same second under two roots, or on two machines, have one name
        "ALTER TABLE evidence RENAME TO evidence_before",
        """CREATE TABLE evidence (
          lesson INTEGER NOT NULL REFERENCES lessons (id) ON DELETE CASCADE, run TEXT NOT NULL, attempt TEXT NOT NULL,
          reference TEXT, kind TEXT NOT NULL, ratio REAL, low REAL, high REAL, reason TEXT, at REAL NOT NULL,
          PRIMARY KEY (lesson, run, attempt, at)
        )""",
        "INSERT INTO evidence SELECT * FROM evidence_before",
        "DROP TABLE evidence_before",
    ),
)
"""What brings a file from each version to the next. `spaced` is `memory.words.spaced`."""


_ELSEWHERE = "Name another file with --lessons, or `none`; or set WARPSMITH_DATA."
LISTED: Final = "`warpsmith lessons list` lists them."


class LessonsError(Exception):
    """The lessons can't be read or changed as asked: `message` (one sentence) and `advice`."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(f"{message}. {advice}".rstrip() if advice else message)
        self.message = message
        self.advice = advice


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """A connection to an up-to-date file, or to a copy of one that may only be read; None while there is no file.
    Raises LessonsError."""
    if not path.exists():
        yield None
        return
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)  # SQLite's log lies beside the file
    with _connected(path) if writable else _copied(path) as db:
        yield db


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction: all of it or nothing is kept. Raises LessonsError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LessonsError(f"can't make {path.parent}: {error.strerror}", _ELSEWHERE) from error
    with _connected(path) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    with _in_words(path), closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as db:
        write_ahead(db)
        db.execute("PRAGMA foreign_keys = ON")
        _migrate(db, path)
        yield db


@contextmanager
def _copied(path: Path) -> Iterator[sqlite3.Connection]:
    """A copy in memory."""
    with _in_words(path), closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
        with closing(_read_only(path)) as db:
            db.backup(copy)
        _migrate(copy, path)
        yield copy


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """What SQLite says, as a LessonsError."""
    try:
        yield
    except OverflowError as error:  # SQLite's numbers have 64 bits
        raise LessonsError("no lesson has so large a number", LISTED) from error
    except sqlite3.Error as error:
        raise LessonsError(f"{path} can't be used: {error}", _ELSEWHERE) from error


def _read_only(path: Path) -> sqlite3.Connection:
    """What the file holds, its log included where SQLite can read that without writing; else what is in the file
    itself."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)
    try:
        db.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError:
        db.close()
        return sqlite3.connect(f"{address}&immutable=1", uri=True)
    return db


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Step by step, in one transaction; another process may have done it meanwhile."""
    version = _version(db)
    if version > len(MIGRATIONS):
        raise LessonsError(f"{path} was written by a newer warpsmith", "Update warpsmith; the file is left as it is.")
    if version == len(MIGRATIONS):
        return
    db.create_function("spaced", 1, spaced, deterministic=True)
    db.execute("BEGIN IMMEDIATE")
    for step in MIGRATIONS[_version(db) :]:
        for statement in step:
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    db.execute("COMMIT")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
