"""Where the graph's state is kept, and where a run that was begun before goes on.

What was paid for stands in the run folder's events, so checkpoints are a short cut: a run that has lost some or all of
them, or is moved from one place to another, is driven through its steps again and finds each call answered.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, StateSnapshot

from agents.state import Begin
from agents.state_address import passwords_in, public_address
from memory.files import RunFolderError
from memory.history import Blobs
from memory.runs import RunFolder
from tools.errors import InfrastructureError, WarpsmithError

_SETUP_LOCK: Final = 0x77617270
"""Any number that no other program of the database uses ("warp")."""
_SETUP_POLL: Final = 0.2
"""Seconds."""

Saver = BaseCheckpointSaver[str]


class StateLost(InfrastructureError):
    """The database that holds the checkpoints can't be used."""


def checkpointer(run: RunFolder, state: str | None = None) -> AbstractAsyncContextManager[Saver]:
    """Checkpoints that hold plain values only: no type of any module is ever rebuilt from them.

    state: None for `state.sqlite` in the run folder, else the address of a PostgreSQL database. Entering raises
    RunFolderError when the file can't be opened or written, StateLost when the database can't, and WarpsmithError when
    the address can't be used.
    """
    return _in_folder(run) if state is None else _in_postgres(state)


def where_to_go_on(snapshot: StateSnapshot) -> Begin | Command[str] | None:
    """The graph's input: a beginning, nothing after an interruption, and a new plan after an end."""
    if not snapshot.values and not snapshot.tasks:
        return Begin(iteration=0)
    if has_ended(snapshot):
        return Command(update={"stop": None, "idle": 0}, goto="plan")
    return None


def has_ended(snapshot: StateSnapshot) -> bool:
    """Whether the graph came to its end."""
    return bool(snapshot.values.get("stop")) and not snapshot.tasks


async def lost_its_texts(saver: Saver, config: RunnableConfig, blobs: Blobs) -> bool:
    """Whether the step that was left open names texts that a power cut took: then it is to be done again from its
    beginning."""
    found = await saver.aget_tuple(config)
    values = [] if found is None else [value for _, _, value in found.pending_writes or [] if isinstance(value, dict)]
    named = [value.get(name) for value in values for name in ("reply", "answer")]
    return any(isinstance(name, str) and not blobs.holds(name) for name in named)


@asynccontextmanager
async def _in_folder(run: RunFolder) -> AsyncIterator[Saver]:
    path = run.path / "state.sqlite"
    try:
        async with aiosqlite.connect(path) as connection:
            # A kill loses nothing in this mode; a power cut may lose the last steps, never the file.
            await connection.execute("PRAGMA synchronous=NORMAL")
            saver = AsyncSqliteSaver(connection, serde=_plain_values())
            try:
                yield saver
            finally:
                # A write that is cut, or begun now, would lock the file for as long as anything knows its cursor.
                async with saver.lock:
                    await connection.rollback()
                    await connection.close()
    except sqlite3.OperationalError as error:
        advice = "Check that the disk is neither full nor read-only."
        raise RunFolderError(f"can't write {path}: {error}", advice) from error
    except sqlite3.DatabaseError as error:
        advice = "Remove it and resume: the run finds what it paid for in its events, and pays for nothing again."
        raise RunFolderError(f"{path} is damaged: {error}", advice) from error


@asynccontextmanager
async def _in_postgres(state: str) -> AsyncIterator[Saver]:
    where = public_address(state)
    try:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    except ImportError as error:
        advice = "Install it: pip install 'warpsmith[postgres]'"
        raise WarpsmithError("the PostgreSQL driver is not installed", advice) from error
    try:
        async with AsyncPostgresSaver.from_conn_string(state, serde=_plain_values()) as saver:
            await _set_up(saver)
            yield saver
    except psycopg.Error as error:
        message = _without(str(error).strip().splitlines() or [type(error).__name__], passwords_in(state))
        raise StateLost(
            f"the state can't be kept in {where}: {message}",
            "Check the address and that the database answers; what was measured is kept in the run folder.",
        ) from None  # the driver's error may quote the whole address


async def _set_up(saver: Any) -> None:
    """Make the tables, one process at a time. Waiting inside the database would stand in the way of an index that the
    other one builds."""
    while not (await (await saver.conn.execute("SELECT pg_try_advisory_lock(%s) AS got", (_SETUP_LOCK,))).fetchone())[
        "got"
    ]:
        await asyncio.sleep(_SETUP_POLL)
    try:
        await saver.setup()
    finally:
        await saver.conn.execute("SELECT pg_advisory_unlock(%s)", (_SETUP_LOCK,))


def _plain_values() -> JsonPlusSerializer:
    return JsonPlusSerializer(allowed_msgpack_modules=())


def _without(lines: Sequence[str], secrets: Sequence[str]) -> str:
    text = " ".join(lines)
    for secret in secrets:
        text = text.replace(secret, "…")
    return text
