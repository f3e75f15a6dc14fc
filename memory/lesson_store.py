"""Lessons in one SQLite file of the user's, shared by all runs on the machine.

Several processes may use it at once: write-ahead logging, and every change is one transaction that takes the write
lock first. A connection lives for one call, so threads and forks share none (`memory.lesson_file`). Each lesson stands
for itself: a damaged one is passed over, and `damaged` names it. A file that may only be read is read. Not covered: a
file on a network file system used by several machines, where write-ahead logging does not work.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from memory.index import Hit
from memory.lesson_file import LISTED, LessonsError, reading, writing
from memory.lessons import Draft, Evidence, Lesson, Situation, as_passage, choose
from memory.words import spaced, words_of

CANDIDATES: Final = 200
"""Lessons that are compared with a task: so many that share words with it, and so many of the newest of its chip."""
MOST_WORDS: Final = 1000
"""Of a query."""

_ALL = "SELECT id FROM lessons"
_BY_WORDS = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
_COLUMNS = "id, claim, operation, says, target, chip, dtypes, shapes, bytes, created, used"
_EVIDENCE = "run, attempt, reference, kind, ratio, low, high, reason, at"


@dataclass(frozen=True)
class Merged:
    """How many lessons an import brought in, joined with one that was there, and found to be there already."""

    added: int
    joined: int
    known: int


def default_path() -> Path:
    """$WARPSMITH_DATA, else $XDG_DATA_HOME/warpsmith, else ~/.local/share/warpsmith; then `lessons.sqlite`."""
    named, xdg = os.environ.get("WARPSMITH_DATA"), os.environ.get("XDG_DATA_HOME")
    folder = Path(named) if named else (Path(xdg) if xdg else Path.home() / ".local" / "share") / "warpsmith"
    return folder / "lessons.sqlite"


class LessonStore:
    """The lessons in the file at `path`. A missing file holds none and is made by the first change. All methods raise
    LessonsError when the file can't be used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[Lesson]:
        """The best first."""
        with reading(self.path) as db:
            found = [] if db is None else _lessons(db, _ALL, ())
        return sorted(found, key=lambda lesson: (-lesson.score, -lesson.confirmed, lesson.id))

    def damaged(self) -> dict[int, str]:
        """Lessons that can't be read: number to what is wrong with them."""
        with reading(self.path) as db:
            read = [] if db is None else [(number, _read(db, number)) for (number,) in db.execute(_ALL).fetchall()]
        return {number: lesson for number, lesson in read if isinstance(lesson, str)}

    def get(self, identity: int) -> Lesson:
        """One lesson; LessonsError when there is none of that number, or it is damaged."""
        with reading(self.path) as db:
            if db is None:
                raise _unknown(identity)
            return _one(db, identity)

    def find(self, words: str, limit: int) -> list[Lesson]:
        """Lessons that hold any of the words, the best match first; faded ones too."""
        expression = " OR ".join(f'"{word}"' for word in list(dict.fromkeys(words_of(words)))[:MOST_WORDS])
        with reading(self.path) as db:
            if db is None or not expression:
                return []
            return _lessons(
                db, "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (expression, limit)
            )

    def relevant(self, situation: Situation, limit: int) -> list[Lesson]:
        """What a planner of such a task should know, best first."""
        expression = _any_of(sorted(situation.words))
        with reading(self.path) as db:
            if db is None:
                return []
            by_chip = "SELECT id FROM lessons WHERE target = ? AND chip = ? ORDER BY id DESC LIMIT ?"
            found = _lessons(db, _BY_WORDS, (expression, CANDIDATES)) if expression else []
            found += _lessons(db, by_chip, (situation.target, situation.chip, CANDIDATES))
        return choose({lesson.id: lesson for lesson in found}.values(), situation, limit)

    def learn(self, draft: Draft) -> Lesson:
        """Store a lesson. One that claims the same of the same chip gets the evidence instead, for or against it."""
        with writing(self.path) as db:
            identity = _known(db, draft)
            if identity is None:
                identity = _insert(db, draft)
            else:
                _add_evidence(db, identity, draft.evidence)
            return _one(db, identity)

    def add_evidence(self, identity: int, evidence: Sequence[Evidence]) -> Lesson:
        """Add what was measured about a lesson; an attempt counts once. LessonsError when there is no such lesson."""
        with writing(self.path) as db:
            if db.execute("SELECT 1 FROM lessons WHERE id = ?", (identity,)).fetchone() is None:
                raise _unknown(identity)
            _add_evidence(db, identity, evidence)
            return _one(db, identity)

    def mark_used(self, identities: Iterable[int], at: float) -> None:
        """They were shown to a planner at this Unix time."""
        rows = [(at, identity) for identity in identities]
        if rows:
            with writing(self.path) as db:
                db.executemany("UPDATE lessons SET used = max(coalesce(used, 0), ?) WHERE id = ?", rows)

    def edit(self, identity: int, claim: str, operation: str) -> Lesson:
        """Put a lesson in other words; its evidence stays. LessonsError when another lesson claims that already."""
        with writing(self.path) as db:
            edited = _reworded(_one(db, identity), claim, operation)
            other = _known(db, edited)
            if other not in (None, identity):
                raise LessonsError(f"lesson {other} claims that already", f"Delete {identity}, or word it differently.")
            change = "UPDATE lessons SET key = ?, claim = ?, operation = ? WHERE id = ?"
            db.execute(change, (edited.key, edited.claim, edited.operation, identity))
            _index(db, identity, edited)
        return edited

    def delete(self, identities: Sequence[int]) -> dict[int, str]:
        """Delete all of these, or none when one is unknown; returns what they claimed. Damaged ones go as well."""
        claims: dict[int, str] = {}
        with writing(self.path) as db:
            for identity in identities:
                row = db.execute("SELECT claim FROM lessons WHERE id = ?", (identity,)).fetchone()
                if row is None:
                    raise _unknown(identity)
                claims[identity] = str(row[0])
            for identity in claims:
                db.execute("DELETE FROM words WHERE rowid = ?", (identity,))
                db.execute("DELETE FROM lessons WHERE id = ?", (identity,))
        return claims

    def merge(self, drafts: Sequence[Draft]) -> Merged:
        """Bring in lessons of another store: all in one transaction, each joined with the one that claims the same."""
        added = joined = 0
        with writing(self.path) as db:
            for draft in drafts:
                identity = _known(db, draft)
                if identity is None:
                    _insert(db, draft)
                    added += 1
                else:
                    joined += _add_evidence(db, identity, draft.evidence) > 0
        return Merged(added, joined, len(drafts) - added - joined)

    def search(self, query: str, limit: int) -> list[Hit]:
        """As passages for `search`."""
        return [as_passage(lesson) for lesson in self.find(query, limit)]


def _unknown(identity: int) -> LessonsError:
    return LessonsError(f"there is no lesson {identity}", LISTED)


def _lessons(db: sqlite3.Connection, ids: str, arguments: Sequence[object]) -> list[Lesson]:
    """The lessons whose ids the query `ids` gives, in its order, without the damaged ones."""
    read = [_read(db, identity) for (identity,) in db.execute(ids, arguments).fetchall()]
    return [lesson for lesson in read if isinstance(lesson, Lesson)]


def _one(db: sqlite3.Connection, identity: int) -> Lesson:
    """LessonsError when there is none of that number, or it is damaged."""
    lesson = _read(db, identity)
    if lesson is None:
        raise _unknown(identity)
    if isinstance(lesson, str):
        raise LessonsError(f"lesson {identity} is damaged: {lesson}", "Delete it, or restore a copy.")
    return lesson


def _read(db: sqlite3.Connection, identity: int) -> Lesson | str | None:
    """The lesson; what is wrong with it when it is damaged; None when there is none of that number."""
    row = db.execute(f"SELECT {_COLUMNS} FROM lessons WHERE id = ?", (identity,)).fetchone()
    if row is None:
        return None
    order = "ORDER BY at, run, attempt"
    rows = db.execute(f"SELECT {_EVIDENCE} FROM evidence WHERE lesson = ? {order}", (identity,)).fetchall()
    try:
        return _lesson(row, rows)
    except ValueError as error:
        return _first(error)


def _lesson(row: Sequence[object], evidence: Sequence[Sequence[object]]) -> Lesson:
    """Raises ValueError for a row that is none."""
    fields = dict(zip(_COLUMNS.split(", "), row, strict=True))
    fields |= {name: json.loads(str(fields[name])) for name in ("dtypes", "shapes")}
    measured = [dict(zip(_EVIDENCE.split(", "), each, strict=True)) for each in evidence]
    return Lesson.model_validate(fields | {"evidence": measured})


def _reworded(lesson: Lesson, claim: str, operation: str) -> Lesson:
    try:
        return Lesson.model_validate(lesson.model_dump() | {"claim": claim.strip(), "operation": operation.strip()})
    except ValidationError as error:
        raise LessonsError(f"lesson {lesson.id} can't say that: {_first(error)}", "It is left as it was.") from error


def _first(error: ValueError) -> str:
    """The first problem, in words."""
    if not isinstance(error, ValidationError):
        return str(error)
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}".removeprefix(": ")


def _any_of(words: Iterable[str]) -> str:
    """A query for passages with any of the words; they hold no mark that FTS5 gives a meaning."""
    return " OR ".join(f'"{word}"' for word in list(words)[:MOST_WORDS])


def _known(db: sqlite3.Connection, draft: Draft) -> int | None:
    row = db.execute("SELECT id FROM lessons WHERE key = ?", (draft.key,)).fetchone()
    return None if row is None else int(row[0])


def _insert(db: sqlite3.Connection, draft: Draft) -> int:
    fields = draft.model_dump(mode="json", exclude={"evidence"})
    fields |= {name: json.dumps(fields[name]) for name in ("dtypes", "shapes")} | {"key": draft.key}
    marks = ", ".join("?" * len(fields))
    row = db.execute(f"INSERT INTO lessons ({', '.join(fields)}) VALUES ({marks})", tuple(fields.values()))
    identity = int(row.lastrowid or 0)
    _add_evidence(db, identity, draft.evidence)
    _index(db, identity, draft)
    return identity


def _add_evidence(db: sqlite3.Connection, identity: int, evidence: Sequence[Evidence]) -> int:
    """Returns how many were new."""
    marks = ", ".join("?" * 10)
    insert = f"INSERT OR IGNORE INTO evidence (lesson, {_EVIDENCE}) VALUES ({marks})"
    return sum(db.execute(insert, (identity, *each.model_dump().values())).rowcount for each in evidence)


def _index(db: sqlite3.Connection, identity: int, draft: Draft) -> None:
    db.execute("DELETE FROM words WHERE rowid = ?", (identity,))
    words = (identity, spaced(draft.claim), spaced(draft.operation))
    db.execute("INSERT INTO words (rowid, claim, operation) VALUES (?, ?, ?)", words)
