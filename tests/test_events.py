"""Events: one schema that every line of a run keeps, where in the run a line belongs, and logs of libraries."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from scripted_model import calls, says
from scripted_run import Stage, judge, proposal, reading, set_up

from agents import event_docs
from agents.event_line import VERSION
from agents.event_schema import RECORDS, check, upgraded
from agents.events import Event, EventKind, Journal, bound
from agents.library_log import library_log
from agents.models.base import ModelError, Reply
from agents.models.costs import spent_so_far
from agents.secrets import MARK, Scrubber
from memory.files import RunFolderError
from memory.runs import RunFolder
from memory.tail import Tail

ROOT = Path(__file__).resolve().parent.parent
KEY = "sk-proj-abcdefghijklmnopqrstuvwx"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


def lines_of(run: RunFolder, name: str = "events.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / name).read_text().splitlines()]


# --- the schema -------------------------------------------------------------------------------------------------------


def test_the_kinds_are_those_of_the_records() -> None:
    assert list(RECORDS) == list(get_args(EventKind))


def test_docs_say_what_the_records_say() -> None:
    page = (ROOT / "docs/events.md").read_text()
    current = (ROOT / "docs/events.schema.json").read_text() == event_docs.schema()
    assert current and page == event_docs.renewed(page), "run python -m agents.event_docs"
    assert set(json.loads(event_docs.schema())["discriminator"]["mapping"]) == set(RECORDS)


async def test_every_line_of_a_run_keeps_the_schema_and_is_what_was_told(stage: Stage) -> None:
    """With what goes wrong: a model that fails, is corrected and gives way, tools that refuse, a resumption."""

    def broke(_: object) -> Reply:
        raise ModelError("quota", "no money")

    stage.script(
        [says("I think."), calls("nonsense", {}), proposal("x"), proposal("z")],
        [calls("show", {"attempt": "a99"}), judge(64), says("Done."), broke],
        [reading("a1"), reading("a2")],
    )
    stage.add("spare", [*([judge(128), says("Done.")] * 2), reading("a2"), reading("a2")])
    await stage.play(fallback=["scripted:spare"], iterations=1)
    await stage.play(fallback=["scripted:spare"], iterations=2)
    path = stage.run.path / "events.jsonl"
    for line in path.read_text().splitlines():
        check(line)
    written = lines_of(stage.run)
    assert [line["event"] for line in written] == [event.event for event in stage.events]
    for line, event in zip(written, stage.events, strict=True):
        assert line == {"event": event.event, "time": line["time"], "v": VERSION} | event.bound | event.fields
    kinds = {line["event"] for line in written}
    assert {"model_failed", "model_changed", "model_corrected", "best_changed", "run_ended"} <= kinds
    told = [line["event"] for line in written]
    assert (told.count("run_started"), told.count("run_resumed")) == (1, 1)


@pytest.mark.parametrize(
    "wrong",
    [{"message": 3}, {"message": "x", "more": 1}, {}, {"message": "x", "iteration": "3"}, {"message": None}],
)
def test_what_is_not_as_the_schema_says_is_not_written(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with Journal(tmp_path / "events.jsonl", lambda _: None) as journal, pytest.raises(ValidationError):
        journal.tell("lessons_failed", **wrong)
    assert (tmp_path / "events.jsonl").read_text() == ""


# --- where a line belongs ---------------------------------------------------------------------------------------------


async def test_coders_in_parallel_do_not_mix(stage: Stage) -> None:
    stage.script(
        [proposal(*(f"change {n}" for n in range(4)))],
        [*(judge(8 << n, flags=["-O2"]) for n in range(4)), *([says("Done.")] * 4)],
        [reading("a1")],
    )
    await stage.play(parallel=4)
    written = lines_of(stage.run)
    assert {line["run"] for line in written} == {stage.run.id} and {line["task"] for line in written} == {"stub"}
    coded = [line for line in written if line.get("role") == "coder"]
    turns = {line["turn"] for line in coded}
    assert turns == {f"0001-coder-{slot}" for slot in range(4)}
    assert all(line["iteration"] == 1 for line in coded)
    judged = [line for line in coded if line["event"] == "attempt_judged"]
    assert len({line["turn"] for line in judged}) == 4
    for line in written:
        if "turn" in line:
            assert line["turn"].split("-")[1] == line["role"]
    assert "turn" not in written[0] and "role" not in written[-1] and "attempt" not in written[-1]


async def test_what_is_bound_follows_the_work_and_ends_with_it(tmp_path: Path) -> None:
    told: list[Event] = []

    async def work(journal: Journal, role: str, turns: list[asyncio.Event]) -> None:
        with bound(role=role, iteration=3):
            turns[0].set()
            await turns[1].wait()
            await asyncio.to_thread(lambda: journal.tell("lessons_failed", message=role))

    with Journal(tmp_path / "events.jsonl", told.append) as journal:
        first, second = asyncio.Event(), asyncio.Event()
        with bound(run="r", other="of somebody else"):
            await asyncio.gather(work(journal, "coder", [first, second]), work(journal, "planner", [second, first]))
        journal.tell("lessons_failed", message="outside")
    by_message = {str(event.fields["message"]): event.bound for event in told}
    assert by_message == {
        "coder": {"run": "r", "role": "coder", "iteration": 3},
        "planner": {"run": "r", "role": "planner", "iteration": 3},
        "outside": {},
    }


# --- what lies in the file already ------------------------------------------------------------------------------------

OLD = [
    '{"run": "r", "task": "t", "target": "cpu", "models": {"planner": "a:b", "coder": "a:b", "analyst": "a:b", '
    '"fallback": {}}, "budgets": {"iterations": 6, "dollars": null}, "parallel": 1, "event": "run_started", '
    '"time": "2026-09-01T10:00:00.000001Z"}',
    '{"role": "planner", "model": "a:b", "iteration": 1, "call": "c", "attempt": 2, "seconds": 1.5, "stop": "tools", '
    '"reply": "ff", "input_tokens": 7, "output_tokens": 3, "cached_tokens": 0, "cache_write_tokens": 0, '
    '"reasoning_tokens": 0, "dollars": 0.5, "estimated": false, "event": "model_called", '
    '"time": "2026-09-01T10:00:01Z"}',
    '{"attempt": "a1", "kernel": "k", "parent": "a0", "iteration": 1, "change": "BLOCK=8", "outcome": "same", '
    '"note": "", "device_seconds": 1.0, "seconds": 0.1, "share_of_limit": 0.5, "speedup": 2.0, '
    '"event": "attempt_judged", "time": "2026-09-01T10:00:02Z"}',
]


def test_lines_of_older_runs_are_read(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "old", {})
    (run.path / "events.jsonl").write_text("\n".join(OLD) + "\n")
    told = run.events()
    for line in told:
        new = upgraded(line)
        check(json.dumps(new))
        assert upgraded(new) == new
    assert upgraded(told[1])["tries"] == 2 and "attempt" not in upgraded(told[1])
    assert upgraded(told[2])["attempt"] == "a1"
    assert spent_so_far(told)["dollars"] == 0.5


@pytest.mark.parametrize(
    "torn",
    [b'{"event": "att', b'{"event": {"a": 1}', b"\0\0\0\0", b'"}', b'{"event": "\xc3}', b"[]", b"\n\n", b"3"],
)
def test_what_a_kill_or_a_power_cut_left_is_passed_over(tmp_path: Path, torn: bytes) -> None:
    run = RunFolder.create(tmp_path, "torn", {})
    path = run.path / "events.jsonl"
    path.write_bytes(OLD[0].encode() + b"\n" + torn)
    assert [line["event"] for line in run.events()] == ["run_started"]
    with Journal(path, lambda _: None) as journal:
        journal.tell("lessons_failed", message="after")
    assert [line["event"] for line in run.events()] == ["run_started", "lessons_failed"]
    assert path.read_bytes().endswith(b"\n")


def test_a_journal_goes_on_where_its_path_is(tmp_path: Path) -> None:
    """A rotation moves the file away, a truncation empties it: nothing is written where nobody looks."""
    path = tmp_path / "events.jsonl"
    with Journal(path, lambda _: None) as journal, Tail(path) as tail:
        journal.tell("lessons_failed", message="1")
        path.rename(tmp_path / "events.jsonl.1")
        journal.tell("lessons_failed", message="2")
        assert len((tmp_path / "events.jsonl.1").read_text().splitlines()) == 1
        assert [json.loads(line)["message"] for line in tail.lines()] == ["2"]
        path.write_text("")
        journal.tell("lessons_failed", message="3")
        assert [json.loads(line)["message"] for line in tail.lines()] == ["3"]
        assert tail.is_written()
    with Tail(path) as tail:
        assert list(tail.lines()) and tail.is_written() is False


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / "events.jsonl"
    with Journal(path, lambda _: None) as journal:
        path.unlink()
        path.parent.rmdir()
        with pytest.raises(RunFolderError, match=r"can't write .*events\.jsonl"):
            journal.tell("lessons_failed", message="x")


def test_the_tail_gives_each_line_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with Tail(path) as tail:
        assert list(tail.lines()) == [] and tail.is_written() is False
        with path.open("ab", buffering=0) as file:
            file.write(b"one\ntw")
            assert list(tail.lines()) == ["one"]
            assert list(tail.lines()) == []
            file.write(b"o\n\xff\n")
            assert list(tail.lines()) == ["two", "\ufffd"]
            file.write(b"last of the old\n")
        path.rename(tmp_path / "lines.1")
        assert list(tail.lines()) == ["last of the old"]
        path.write_text("new\n")
        assert list(tail.lines()) == ["new"]
        path.write_text("")
        assert list(tail.lines()) == []
        path.write_text("cut\n")
        assert list(tail.lines()) == ["cut"]


# --- libraries --------------------------------------------------------------------------------------------------------


def test_what_libraries_say_is_kept_without_keys_and_locals(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's own would print
    path, log = tmp_path / "log.jsonl", logging.getLogger("httpx2")

    def fails(password: str) -> None:
        local = f"{password} in a local variable"
        raise RuntimeError(f"refused {KEY}", len(local))

    with bound(run="mine", role="coder"), library_log(path, Scrubber(["hidden-word"])):
        log.info("not a warning")
        assert not path.exists()
        log.warning("retrying %s with %s", "https://u:pw@host/v1", "hidden-word")
        try:
            fails("a password")
        except RuntimeError:
            log.exception("broken")
        log.error("bad arguments %d", "x")
        thread = threading.Thread(target=log.warning, args=("from a thread of its own",))
        thread.start()
        thread.join()
        with bound(run="another"):
            log.warning("of another run")
    log.warning("later")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == [
        f"retrying https://u:{MARK}@host/v1 with {MARK}",
        "broken",
        "from a thread of its own",
    ]
    assert lines[0]["level"] == "warning" and lines[0]["logger"] == "httpx2" and lines[0]["role"] == "coder"
    frames = lines[1]["exception"][0]["frames"]
    assert frames[-1]["name"] == "fails" and not frames[-1].get("locals")
    text = path.read_text()
    assert KEY not in text and "in a local variable" not in text and "a password" not in text and "refused" in text
    assert capfd.readouterr().err.strip() == "later"


async def test_a_run_keeps_what_libraries_say_in_its_folder(stage: Stage) -> None:
    def seconds(_: object) -> float:
        logging.getLogger("langgraph").warning("it is late")
        return 0.5

    stage.script([proposal("x")], [judge(64), says("Done.")], [reading("a1")])
    stage.executor.first_seconds_of = seconds
    await stage.play()
    said = [line for line in lines_of(stage.run, "log.jsonl") if line["event"] == "it is late"]
    assert [line["attempt"] for line in said][:2] == ["a0", "a1"] and said[1]["turn"] == "0001-coder-0"
    assert not [handler for handler in logging.getLogger().handlers if "log.jsonl" in repr(handler)]


def test_a_full_disk_costs_lines_of_libraries_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with library_log(tmp_path / "missing" / "log.jsonl", Scrubber()):
        logging.getLogger("httpx2").warning("nowhere to go")
    assert "Traceback" not in capfd.readouterr().err
