"""A file that another process writes gets its log of writes all the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory import write_ahead
from memory.index import Index
from memory.lesson_file import writing


def as_index(path: Path) -> None:
    with Index(path) as index:
        assert index.count() == 0


def as_lessons(path: Path) -> None:
    with writing(path) as db:
        assert db.execute("SELECT count(*) FROM lessons").fetchone() == (0,)


@pytest.mark.parametrize("open_it", [as_index, as_lessons])
def test_it_is_opened_once_another_connection_has_written(
    open_it: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.sqlite"
    waits = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # SQLite refuses the log at once then, without waiting for the end of this

        def wait(_seconds: float) -> None:
            nonlocal waits
            waits += 1
            if waits == 3:
                other.execute("COMMIT")

        monkeypatch.setattr(write_ahead, "_sleep", wait)
        open_it(path)
    assert waits == 3


def test_what_is_no_other_process_s_doing_is_raised_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(_seconds: float) -> Any:
        raise AssertionError("it waits")

    monkeypatch.setattr(write_ahead, "_sleep", wait)
    path = tmp_path / "file.sqlite"
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.DatabaseError):
        write_ahead.write_ahead(db)
