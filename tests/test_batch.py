"""Batches: whose turn it is, one budget for all, a journal that survives, faults that stay where they happen."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import stub_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from nursery import nursery
from stub_batch import command, make_batch, plan

from agents.batch import Begun, Granted, SharedBudget, Turned
from agents.batch_board import Board
from agents.batch_books import BatchEvent, Books
from agents.batch_budget import Account, Pool
from agents.batch_crew import Crew
from agents.batch_queue import QUEUE_NAME, BatchFolder
from agents.batch_schedule import FIRST_RATE, STARVING, Standing, choose, expected_gain, rate_after
from agents.models.costs import spent_so_far
from agents.pausing import LIFT_NAME, PAUSED_NAME, Paused, paused_in
from agents.settings import Budgets, Models
from app import batch as batching
from app.batch_pausing import ask_to_go_on
from app.batch_summary import summarize_batch
from app.configuration import Asked, configure
from app.terminal import console_for
from memory.files import RunFolderError
from tools.errors import WarpsmithError

shares = st.one_of(st.none(), st.floats(1e-4, 1.0))
rates = st.floats(0.0, 1.0)


@st.composite
def standings(draw: st.DrawFn, least: int = 0) -> list[Standing]:
    count = draw(st.integers(least, 6))
    return [
        Standing(f"t{i}", draw(st.integers(0, 3)), draw(st.integers(0, 40)), draw(shares), draw(rates))
        for i in range(count)
    ]


@given(standings(), st.integers(0, 4))
def test_a_turn_goes_to_one_that_could_have_it(found: list[Standing], others: int) -> None:
    chosen = choose(found, len(found) + others)
    assert (chosen is None) == (not found)
    assert chosen is None or chosen in {standing.key for standing in found}
    assert chosen == choose(list(found), len(found) + others)


@given(standings(1))
def test_the_most_is_expected_of_the_chosen_unless_one_is_new_or_starves(found: list[Standing]) -> None:
    chosen = next(standing for standing in found if standing.key == choose(found, len(found)))
    if any(standing.turns == 0 for standing in found):
        assert chosen.turns == 0
    elif any(standing.waited >= STARVING * len(found) for standing in found):
        assert chosen.waited == max(standing.waited for standing in found)
    else:
        assert expected_gain(chosen) == max(map(expected_gain, found))


@given(st.lists(st.tuples(shares, rates), min_size=1, max_size=6), st.integers(1, 3))
@settings(max_examples=30)
def test_nobody_starves_whatever_is_expected_of_the_others(promises: list[tuple[Any, float]], jobs: int) -> None:
    n = len(promises)
    waited, turns, running = [0] * n, [0] * n, list[int]()
    for _ in range(8 * n * STARVING):
        ready = [i for i in range(n) if i not in running]
        key = choose([Standing(str(i), turns[i], waited[i], *promises[i]) for i in ready], n)
        if key is None:
            running.pop(0)
            continue
        chosen = int(key)
        waited = [0 if i == chosen else w + 1 for i, w in enumerate(waited)]
        turns[chosen] += 1
        running.append(chosen)
        if len(running) >= jobs:
            running.pop(0)
        assert max(waited) <= (STARVING + 1) * n


@given(rates, shares, shares)
def test_a_rate_stays_a_share_and_rises_only_with_a_gain(
    rate: float, before: float | None, after: float | None
) -> None:
    new = rate_after(rate, before, after)
    assert 0.0 <= new <= 1.0
    if before is not None and after is not None and after <= before:
        assert new <= rate


def test_twice_the_headroom_is_worth_twice_as_much_at_the_same_rate() -> None:
    near, far = Standing("near", 1, 0, 0.5, FIRST_RATE), Standing("far", 1, 0, 0.25, FIRST_RATE)
    assert expected_gain(far) == pytest.approx(2 * expected_gain(near))
    assert choose([near, far], 2) == "far"
    assert choose([near, Standing("stuck", 1, 0, 0.25, 0.01)], 2) == "near"


# One budget


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.1, 3.0), st.floats(0.0, 1.0)), min_size=1, max_size=30),
    st.floats(0.5, 20.0),
)
@settings(max_examples=40, deadline=None)
def test_money_is_overshot_by_less_than_one_call_however_many_ask(
    calls: list[tuple[str, float, float]], limit: float
) -> None:
    """Each call costs a share of the most that it may cost."""

    async def play() -> tuple[float, list[float]]:
        pool = Pool(SharedBudget(dollars=limit), {"a": Account(), "b": Account()})
        made: list[float] = []

        async def call(number: int, key: str, most: float, share: float) -> None:
            if await pool.take(key, number, most, 0) is None:
                await asyncio.sleep(0)
                made.append(most)
                pool.settle(key, number, most * share, 0)

        await asyncio.gather(*(call(i, *each) for i, each in enumerate(calls)))
        return pool.spent[0], made

    spent, made = asyncio.run(play())
    assert spent < limit + max(made, default=0.0)
    if spent < limit:
        assert len(made) == len(calls)


async def test_near_the_limit_of_device_time_one_waits_for_the_other() -> None:
    pool = Pool(SharedBudget(device_time=10.0), {"a": Account(), "b": Account()})
    assert await pool.take("a", 1, 0.0, 0) is None
    pool.used_device("a", 6.0)
    assert await pool.take("a", 2, 0.0, 0) is None
    waiting = asyncio.create_task(pool.take("b", 1, 0.0, 0))
    await asyncio.sleep(0)
    assert not waiting.done()  # 6 s are gone, and `a` may take 6 s more
    pool.used_device("a", 10.5)
    asked = asyncio.create_task(pool.take("a", 3, 0.0, 0))
    assert await waiting == "device_time" and await asked == "device_time"


async def test_what_a_dead_process_held_counts_as_spent() -> None:
    pool = Pool(SharedBudget(dollars=10.0), {"a": Account(), "b": Account()})
    assert await pool.take("a", 1, 10.0, 100) is None
    waiting = asyncio.create_task(pool.take("b", 1, 1.0, 100))
    await asyncio.sleep(0)
    assert not waiting.done() and pool.over is None
    pool.leave("a")
    assert pool.spent[:2] == (10.0, 100)
    assert await waiting == pool.over == "money"


# The journal


def board_of(folder: BatchFolder) -> Board:
    return Board.of(folder.batch(), folder.lines())


def test_a_journal_that_breaks_off_anywhere_is_read_up_to_there_and_gone_on_with(tmp_path: Path) -> None:
    folder = make_batch(tmp_path, {"a": {}, "b": {}})
    lines = [
        Begun(time=1.0, elapsed=0.0, plan=plan()),
        Granted(elapsed=1.0, task="a"),
        Turned(elapsed=2.0, task="a", reason="turn_over", iterations=2, share_of_limit=0.5, device_seconds=1.0),
        Granted(elapsed=3.0, task="b"),
    ]
    with folder.journal() as journal:
        for line in lines:
            journal.add(line)
    path = folder.path / QUEUE_NAME
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in sorted({0, *ends, *(end - 1 for end in ends), *(end + 7 for end in ends[:-1])}):
        path.write_bytes(whole[:cut])
        known = sum(end <= cut for end in ends)
        assert folder.lines() == lines[:known]
        with folder.journal() as journal:
            journal.add(lines[0])
        assert folder.lines() == [*lines[:known], lines[0]]
        assert all(state.status != "running" for state in board_of(folder).tasks.values())


def test_only_one_process_runs_a_batch(tmp_path: Path) -> None:
    folder = make_batch(tmp_path, {"a": {}})
    with folder.journal(), pytest.raises(RunFolderError), folder.journal():
        pass


@pytest.mark.parametrize(
    ("damage", "said"), [(b'{"event":"nonsense"}\n', "says nothing"), (b"\xff\n", "can't read"), (b"1\n", "says")]
)
def test_a_damaged_journal_is_said_to_be_one(tmp_path: Path, damage: bytes, said: str) -> None:
    folder = make_batch(tmp_path, {"a": {}})
    (folder.path / QUEUE_NAME).write_bytes(damage)
    with pytest.raises(RunFolderError, match=said):
        folder.lines()


# Whole batches, each task in a process of its own


@pytest.fixture(scope="module")
def nest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nursery("stub_batch", tmp_path_factory.mktemp("nursery")) as path:
        yield path


def judged(folder: BatchFolder, key: str) -> Counter[str]:
    """How often each kernel was judged in the search."""
    lines = (folder.path / f"{key}.judged").read_text().splitlines()
    return Counter(line.split()[0] for line in lines if line.endswith("False"))


async def test_tasks_end_each_for_its_reason_and_a_fault_stays_with_its_task(nest: str, tmp_path: Path) -> None:
    faults: dict[str, dict[str, Any]] = {
        "plain": {},
        "crashes": {"crash": 2},
        "breaks": {"break": 3},
        "hopeless": {"crash": 1, "always": True},
        "refused": {"refuse": True},
    }
    folder, events = make_batch(tmp_path, faults), list[BatchEvent]()
    board = await stub_batch.run(folder, plan(retries=1), nest, events)
    states = board.tasks
    assert {key: state.status for key, state in states.items()} == {
        "plain": "ended",
        "crashes": "ended",
        "breaks": "ended",
        "hopeless": "failed",
        "refused": "refused",
    }
    assert {states[key].reason for key in ("plain", "crashes", "breaks")} == {"iterations"}
    assert [states[key].retried for key in faults] == [0, 1, 1, 1, 0]
    assert "SIGSEGV" in states["hopeless"].message and "zeros" in states["refused"].message
    for key in ("plain", "crashes", "breaks"):
        run = folder.run_of(key)
        assert run is not None and set(judged(folder, key).values()) == {1}
        assert {attempt.kernel_id for attempt in run.attempts()} == set(judged(folder, key))
        assert run.outcome() is not None and run.final(run.best() or "") is not None
        heard = (folder.path / f"{key}.heard").read_text().split()
        assert {event["event"] for event in run.events()} <= {*heard}, "as traces would"
    assert board == folder.board() and board.stopped and board.reason is None


async def test_a_batch_killed_anywhere_comes_to_the_same_end(nest: str, tmp_path: Path) -> None:
    """Its own process and those of its tasks are killed at random moments; no kernel is judged twice in the search."""
    keys = {"a": {}, "b": {}, "c": {}}
    quiet = make_batch(tmp_path / "quiet", keys)
    undisturbed = await stub_batch.run(quiet, plan(), nest)
    folder, chance = make_batch(tmp_path, keys), random.Random(7)
    (folder.path / "plan.json").write_text(plan(retries=9).model_dump_json())
    for _ in range(5):
        program = stub_batch.command(nest, str(folder.path), "", nest)
        process = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        await _until_written(folder, chance.randint(1, 4), process)
        process.kill()
        process.wait()
        await _until_free(folder)
    board = await stub_batch.run(folder, plan(retries=9), nest)
    assert {s.key: (s.status, s.reason, s.iterations) for s in board.tasks.values()} == {
        s.key: (s.status, s.reason, s.iterations) for s in undisturbed.tasks.values()
    }
    for key in keys:
        mine, theirs = folder.run_of(key), quiet.run_of(key)
        assert mine is not None and theirs is not None and mine.best() == theirs.best()
        assert [a.kernel_id for a in mine.attempts()] == [a.kernel_id for a in theirs.attempts()]
        torn = sum(judged(folder, key).values()) - len(mine.attempts())
        assert torn <= 5  # a kill between a measurement and its line costs that one
    assert figures_of(folder) == figures_of(quiet)


def figures_of(folder: BatchFolder) -> Any:
    """The summary, but for what names a folder, for what kills cost, and for times of work."""
    cost = {"run", "turns", "retries", "device_seconds", "elapsed"}
    summary = summarize_batch(folder)
    rows = [row.model_dump(mode="json", exclude=cost) for row in summary.tasks]
    return summary.state, summary.reason, summary.scores, rows


async def _until_written(folder: BatchFolder, lines: int, process: subprocess.Popen[bytes]) -> None:
    """Until the journal has so many lines more, or the process ended."""
    before = len(folder.lines())
    while len(folder.lines()) < before + lines and process.poll() is None:
        await asyncio.sleep(0.005)


async def _until_free(folder: BatchFolder) -> None:
    """Until the fork that worked for the killed process is gone as well."""
    while True:
        with suppress(RunFolderError), folder.journal():
            return
        await asyncio.sleep(0.005)


async def test_finished_tasks_stay_finished_and_a_larger_budget_opens_what_it_ended(nest: str, tmp_path: Path) -> None:
    folder = make_batch(tmp_path, {"a": {}, "b": {}})
    await stub_batch.run(folder, plan(), nest)
    before = {key: judged(folder, key) for key in "ab"}
    again = await stub_batch.run(folder, plan(), nest)
    assert {key: judged(folder, key) for key in "ab"} == before
    assert all(state.turns == folder.board().tasks[key].turns for key, state in again.tasks.items())
    larger = stub_batch.SETTINGS.model_copy(update={"budgets": Budgets(iterations=6, near_limit=None, patience=None)})
    board = await stub_batch.run(folder, plan(settings=larger), nest)
    assert [state.iterations for state in board.tasks.values()] == [6, 6]


async def test_tokens_are_shared_to_the_last_call_across_tasks_and_resumptions(nest: str, tmp_path: Path) -> None:
    """Every call costs the same and may cost more than the whole limit, so that calls are let go one at a time."""
    folder = make_batch(tmp_path, {"a": {}, "b": {}})
    dear = stub_batch.SETTINGS.model_copy(update={"models": Models.choose("paid:autotune")})
    for limit in (1000, 1350):
        board = await stub_batch.run(folder, plan(settings=dear, tokens=limit), nest)
        paid = [spent_so_far(run.events()) for key in "ab" if (run := folder.run_of(key)) is not None]
        tokens = [each["input_tokens"] + each["output_tokens"] for each in paid]
        assert limit <= sum(tokens) < limit + stub_batch.TOKENS and all(tokens)
        assert {state.reason for state in board.tasks.values()} == {"tokens"}


async def test_when_the_shared_time_is_over_each_begun_task_measures_its_winner_and_no_other_begins(
    nest: str, tmp_path: Path
) -> None:
    folder, events = make_batch(tmp_path, {"a": {}, "b": {}, "c": {}}), list[BatchEvent]()
    crew = stub_batch.crew(folder, plan(jobs=1, turn=1, device_time=1000.0), events, nest)

    def spend(event: BatchEvent) -> None:
        events.append(event)
        if event.kind == "turned" and event.task == "b":
            crew.books.pool.used_device("a", 1000.0)

    crew.on_event = spend
    board = await crew.run()
    assert {key: state.status for key, state in board.tasks.items()} == {"a": "ended", "b": "ended", "c": "waiting"}
    assert board.tasks["a"].reason == board.tasks["b"].reason == board.reason == "device_time"
    for key in "ab":
        run = folder.run_of(key)
        assert run is not None and run.final(run.best() or "") is not None
    assert folder.run_of("c") is None
    board = await stub_batch.run(folder, plan(device_time=1e6), nest)
    assert {state.reason for state in board.tasks.values()} == {"iterations"}


async def test_a_halt_finishes_the_step_saves_and_is_gone_on_with(nest: str, tmp_path: Path) -> None:
    folder, events = make_batch(tmp_path, {"a": {}, "b": {}, "c": {}}), list[BatchEvent]()
    crew = stub_batch.crew(folder, plan(jobs=2, turn=4), events, nest)

    def halt(event: BatchEvent) -> None:
        events.append(event)
        if event.kind == "happened" and event.fields["event"] == "iteration_ended" and not crew.halted:
            crew.halt()

    crew.on_event = halt
    board = await crew.run()
    assert board.reason == "user" and board.tasks["c"].status == "waiting"
    assert {board.tasks[key].status for key in "ab"} == {"paused"}
    assert 0 < sum(state.iterations for state in board.tasks.values()) < 8
    board = await stub_batch.run(folder, plan(), nest)
    assert {state.reason for state in board.tasks.values()} == {"iterations"} and board.reason is None


async def test_of_a_shared_limit_it_is_told_once_that_it_is_nearly_reached(nest: str, tmp_path: Path) -> None:
    dear = stub_batch.SETTINGS.model_copy(update={"models": Models.choose("paid:autotune")})
    events: list[BatchEvent] = []
    await stub_batch.run(make_batch(tmp_path, {"a": {}, "b": {}}), plan(settings=dear, tokens=1000), nest, events)
    (told,) = [event.fields for event in events if event.kind == "nearing"]
    assert told["budget"] == "tokens" and told["limit"] == 1000 and 800 <= float(str(told["used"])) < 1000


def test_a_batch_that_is_taken_up_again_tells_of_no_limit_twice_unless_it_was_raised(tmp_path: Path) -> None:
    folder = make_batch(tmp_path, {"a": {}})

    def told(used: float, limit: float) -> list[object]:
        """By a new process, once the batch used so many device seconds of so many."""
        events: list[BatchEvent] = []
        with folder.journal() as journal:
            books = Books(folder, plan(device_time=limit), journal, events.append)
            books.begin()
            books.pool.used_device("a", used)
            books.tell_low()
            books.tell_low()
        return [event.fields["used"] for event in events if event.kind == "nearing"]

    assert told(70.0, 100.0) == []
    assert told(80.0, 100.0) == [80.0]
    assert told(90.0, 100.0) == []
    assert told(90.0, 105.0) == [90.0], "80 are not nearly 105"
    assert told(95.0, 110.0) == [], "but 90 are nearly 110"


async def test_checkpoints_of_all_tasks_are_kept_where_the_plan_says(nest: str, tmp_path: Path) -> None:
    folder = make_batch(tmp_path, {"a": {}})
    nowhere = plan(retries=0).model_copy(update={"state": "postgresql://nobody@127.0.0.1:1/none"})
    board = await stub_batch.run(folder, nowhere, nest)
    assert board.tasks["a"].status == "failed" and "postgresql://nobody@127.0.0.1:1/none" in board.tasks["a"].message


def test_a_batch_at_a_limit_waits_until_another_plan_raises_it(
    nest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that asks is a thread here: what they share is the folder."""
    folder = make_batch(tmp_path, {"a": {}, "b": {}})
    monkeypatch.setattr(
        batching, "Crew", lambda **given: Crew(**given | {"command": lambda key: command(nest, str(folder.path), key)})
    )
    first = plan().model_copy(update={"pause_at_limit": True})
    larger = stub_batch.SETTINGS.model_copy(update={"budgets": Budgets(iterations=6, near_limit=None, patience=None)})
    answers: list[object] = []
    over = Event()

    def lift() -> None:
        while (waits := paused_in(folder.path)) is None:
            if over.wait(0.005):
                return
        assert folder.board().stopped and (folder.path / "summary.json").exists()
        with pytest.raises(WarpsmithError, match="as they were"):
            ask_to_go_on(folder, first, first)
        answers.append(ask_to_go_on(folder, first, plan(settings=larger)) == waits)

    asking = Thread(target=lift)
    asking.start()
    configuration = configure(Asked(), {}, tmp_path)
    work = batching._work(folder, first, configuration, console_for(), as_json=False, state=None)
    try:
        assert asyncio.run(work) is None
    finally:
        over.set()
        asking.join()
    assert answers == [True] and paused_in(folder.path) is None
    assert [state.iterations for state in folder.board().tasks.values()] == [6, 6]


def test_a_batch_that_was_killed_while_it_waited_is_taken_up_here(tmp_path: Path) -> None:
    folder = make_batch(tmp_path, {"a": {}})
    (folder.path / PAUSED_NAME).write_text(Paused(reason="iterations", since=0.0, pid=1).model_dump_json())
    elsewhere = plan().model_copy(update={"state": "postgresql://db/x"})
    for asked in (plan(), plan(tokens=9), elsewhere):
        assert ask_to_go_on(folder, plan(), asked) is None
    assert not (folder.path / LIFT_NAME).exists()


async def test_a_task_process_that_is_killed_is_started_again(nest: str, tmp_path: Path) -> None:
    folder, events = make_batch(tmp_path, {"a": {}}), list[BatchEvent]()
    crew = stub_batch.crew(folder, plan(jobs=1), events, nest)
    killed: list[int] = []

    def kill(event: BatchEvent) -> None:
        events.append(event)
        if event.kind == "happened" and event.fields["event"] == "iteration_started" and not killed:
            killed.append(crew._children["a"].pid)
            os.kill(killed[0], signal.SIGKILL)

    crew.on_event = kill
    board = await crew.run()
    assert killed and board.tasks["a"].reason == "iterations" and board.tasks["a"].retried == 1
    assert set(judged(folder, "a").values()) == {1}


def test_the_processes_of_tasks_die_with_the_batch(tmp_path: Path) -> None:
    folder = make_batch(tmp_path, {"a": {"hang": True}})
    (folder.path / "plan.json").write_text(plan(jobs=1).model_dump_json())
    process = subprocess.Popen(stub_batch.command(None, str(folder.path), ""))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text().split()) and process.poll() is None:
        time.sleep(0.01)
    while not (folder.path / "a.judged").exists() and process.poll() is None:
        time.sleep(0.01)
    assert process.poll() is None and found, "it works on the task"
    process.kill()
    process.wait()
    while any(_alive(int(pid)) for pid in found):  # ended by the test's time limit when one goes on
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
