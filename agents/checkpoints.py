"""Where the graph's state is kept, and where a run that was begun before goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiosqlite
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, StateSnapshot

from agents.state import Begin
from memory.files import RunFolderError
from memory.runs import RunFolder


@asynccontextmanager
async def checkpointer(run: RunFolder) -> AsyncIterator[AsyncSqliteSaver]:
    """Checkpoints in `state.sqlite` that hold plain values only: no type of any module is ever rebuilt from them.

    Raises RunFolderError when the file can't be opened or written.
    """
    path = run.path / "state.sqlite"
    try:
        async with aiosqlite.connect(path) as connection:
            # A kill loses nothing in this mode; a power cut may lose the last steps, never the file.
            await connection.execute("PRAGMA synchronous=NORMAL")
            yield AsyncSqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=()))
    except sqlite3.OperationalError as error:
        advice = "Check that the disk is neither full nor read-only."
        raise RunFolderError(f"can't write {path}: {error}", advice) from error


def where_to_go_on(snapshot: StateSnapshot) -> Begin | Command[str] | None:
    """The graph's input: a beginning, nothing after an interruption, and a new plan after an end."""
    if not snapshot.values and not snapshot.tasks:
        return Begin(iteration=0)
    if snapshot.values.get("stop") and not snapshot.tasks:
        return Command(update={"stop": None}, goto="plan")
    return None
