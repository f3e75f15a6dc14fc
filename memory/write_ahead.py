"""SQLite files that several processes write and read at the same time: their log of writes."""

from __future__ import annotations

import sqlite3
import time
from typing import Final

BUSY_SECONDS: Final = 30.0
"""How long a process waits for another one's transaction."""
_PAUSE: Final = 0.01
_sleep = time.sleep


def write_ahead(db: sqlite3.Connection) -> None:
    """Have the file keep a write-ahead log. Raises sqlite3.Error.

    While another connection writes a file that has no such log yet, SQLite refuses at once, however long the
    connection's own timeout is; two processes that make one file meet so.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.Error as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        _sleep(_PAUSE)


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
