"""What a run searches, takes from earlier runs and leaves to later ones: real run folders, real verdicts."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted_model import calls, says
from scripted_run import hypothesis as plan
from scripted_run import judge, proposal, reading, set_up

from agents.actions import TOOLS
from agents.attempts import Attempts
from agents.events import Event, Journal
from agents.lessons import Claim, Lessons
from agents.library import Library
from agents.models.base import ToolCall
from agents.shelves import LessonShelf
from agents.state import Hypothesis
from agents.toolbox import Refused, Toolbox
from memory.lesson_store import LessonStore
from memory.runs import RunFolder
from tests.stub_executor import TASK, StubExecutor
from tests.synthetic_run import make_run
from tools.headers import header_folders
from tools.records import Kernel

SECONDS = {"1": 1.0, "2": 0.5, "3": 0.8, "4": 0.501, "5": None, "6": 0.25}
GOOD = Claim("Blocks of two halve the time", "elementwise product", "helps")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))


def kernel(block: str) -> Kernel:
    start = TASK.start["cpp"]
    return start.model_copy(update={"defines": {"BLOCK": block}})


def hypothesis(parent: str, *lessons: int) -> Hypothesis:
    return Hypothesis(
        idea="Wider blocks", change="BLOCK", metric="seconds", expected="-20 %", parent=parent, lessons=list(lessons)
    )


class Stage:
    """A run with a store of lessons, without a model."""

    def __init__(self, root: Path, store: LessonStore | None) -> None:
        self.run = RunFolder.create(root / "runs", "stub", {"task": {"name": "stub"}})
        self.told: list[Event] = []
        self.journal = Journal(self.run.path / "events.jsonl", self.told.append)
        self.executor = StubExecutor(lambda kernel: SECONDS[kernel.defines["BLOCK"]])
        self.attempts = Attempts(TASK, self.executor, self.run, self.journal)
        self.store = store

    async def lessons(self) -> Lessons:
        facts = await self.executor.open(TASK)
        return Lessons(self.store, self.run, self.attempts, self.journal, task=TASK, facts=facts)

    async def judge(self, *blocks: str, lessons: tuple[int, ...] = ()) -> None:
        """`1` is the start; each of the others is tried from it."""
        for block in blocks:
            asked = None if block == "1" else hypothesis("a0", *lessons)
            await self.attempts.judge(kernel(block), None if block == "1" else "a0", 1, asked)


@pytest.fixture
def store(tmp_path: Path) -> LessonStore:
    return LessonStore(tmp_path / "lessons.sqlite")


@pytest.fixture
def stage(tmp_path: Path, store: LessonStore) -> Iterator[Stage]:
    stage = Stage(tmp_path, store)
    with stage.journal:
        yield stage


async def test_what_is_learnt_is_what_the_judge_measured(stage: Stage) -> None:
    await stage.judge("1", "2", "3")
    lesson = (await stage.lessons()).learn(GOOD, ["a1"])
    (evidence,) = lesson.evidence
    assert (evidence.kind, evidence.ratio, evidence.reference, evidence.run) == ("gain", 2.0, "a0", stage.run.id)
    assert (lesson.target, lesson.dtypes, lesson.bytes) == ("cpu", ("float32",), 8192.0)
    assert lesson.shapes == ("x: float32[1024]",)
    told = [event.fields for event in stage.told if event.event == "lesson"]
    assert told == [
        {"lesson": lesson.id, "claim": GOOD.claim, "says": "helps", "confirmed": 1, "contradicted": 0},
    ]


async def test_an_attempt_that_raced_another_is_compared_with_its_own_parent(stage: Stage) -> None:
    """a2 lost its race against a1, but it is faster than a0, which its hypothesis started from."""
    await stage.judge("1", "2", "3")
    lesson = (await stage.lessons()).learn(GOOD, ["a2"])
    assert (lesson.evidence[0].kind, lesson.evidence[0].ratio) == ("gain", pytest.approx(1.25))


@pytest.mark.parametrize(
    ("says", "attempts", "words"),
    [
        ("no_gain", ["a1"], "gives no gain is not what was measured: 2x [2, 2] (a1 over a0)"),
        ("helps", ["a2"], "helps is not what was measured: rejected: wrong_result (a2)"),
        ("fails", ["a1"], "fails is not what was measured"),
        ("helps", ["a1", "a2"], "(a2)"),
        ("helps", ["a0"], "nothing was measured of a0 against another attempt"),
    ],
)
async def test_a_claim_that_the_verdicts_don_t_show_is_refused(
    stage: Stage, store: LessonStore, says: str, attempts: list[str], words: str
) -> None:
    await stage.judge("1", "2", "5")
    with pytest.raises(Refused) as raised:
        (await stage.lessons()).learn(Claim("c", "o", says), attempts)  # type: ignore[arg-type]
    assert words in str(raised.value)
    assert store.all() == []


async def test_a_failure_is_a_lesson_and_its_cure_contradicts_it(stage: Stage) -> None:
    await stage.judge("1", "5", "6")
    lessons = await stage.lessons()
    lesson = lessons.learn(Claim("Blocks of five lose the tail", "elementwise", "fails"), ["a1"])
    again = lessons.add_evidence(lesson.id, ["a2"])
    assert (again.confirmed, again.contradicted) == (1, 1)


async def test_a_lesson_that_a_hypothesis_tested_is_scored_once(stage: Stage, store: LessonStore) -> None:
    await stage.judge("1", "2")
    lessons = await stage.lessons()
    first = lessons.learn(GOOD, ["a1"])
    await stage.judge("5", "6", lessons=(first.id, 99))
    for _ in range(2):
        lessons.score_cited(stage.run.attempts())
    (scored,) = store.all()
    assert [(each.attempt, each.kind) for each in scored.evidence] == [("a1", "gain"), ("a3", "gain")]
    assert "no lesson 99" in str(next(event.fields for event in stage.told if event.event == "lessons_failed"))


async def test_a_run_is_told_the_same_lessons_until_its_end(stage: Stage, store: LessonStore) -> None:
    await stage.judge("1", "2")
    assert (await stage.lessons()).text == ""
    (stage.run.path / "lessons.json").unlink()
    lesson = (await stage.lessons()).learn(GOOD, ["a1"])
    (stage.run.path / "lessons.json").unlink()
    told = (await stage.lessons()).text
    assert GOOD.claim in told
    assert store.get(lesson.id).used is not None
    store.delete([lesson.id])
    assert (await stage.lessons()).text == told


async def test_a_broken_store_costs_the_lessons_and_not_the_run(stage: Stage, store: LessonStore) -> None:
    await stage.judge("1", "2")
    store.path.write_text("no database " * 100)
    lessons = await stage.lessons()
    assert lessons.text == ""
    with pytest.raises(Refused, match="can't be used"):
        lessons.learn(GOOD, ["a1"])
    await stage.judge("6", lessons=(1,))
    lessons.score_cited(stage.run.attempts())
    assert "lessons_failed" in [event.event for event in stage.told]


async def test_the_analyst_s_tool_writes_confirms_and_refuses(stage: Stage, store: LessonStore) -> None:
    await stage.judge("1", "2", "3")
    seat = SimpleNamespace(context=SimpleNamespace(lessons=await stage.lessons()))
    box = Toolbox(TOOLS["analyst"], seat)

    async def call(**arguments: object) -> str:
        return (await box.call(ToolCall(id="c", name="learn", arguments=json.dumps(arguments)))).text

    new = {"claim": GOOD.claim, "operation": GOOD.operation, "says": "helps"}
    answer = json.loads(await call(attempts=["a1"], **new))
    assert (answer["confirmed"], answer["evidence"]) == (1, ["2x [2, 2] (a1 over a0)"])
    assert json.loads(await call(attempts=["a2"], lesson=answer["lesson"]))["confirmed"] == 2
    assert "refused: there is no attempt a9" in await call(attempts=["a9"], **new)
    assert "refused: a lesson is either new or an old one" in await call(attempts=["a1"], claim="half of it")
    assert "refused: there is no lesson 7" in await call(attempts=["a1"], lesson=7)
    assert "wrong_arguments" in await call(attempts=["a1"], claim="c", operation="o", says="perhaps")
    assert "refused: claim" in await call(attempts=["a1"], claim="x" * 500, operation="o", says="helps")
    assert len(store.all()) == 1


async def test_each_place_is_searched_alone_and_all_together(
    stage: Stage, store: LessonStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = header_folders("cpp")[:1]
    monkeypatch.setattr("agents.library.header_folders", lambda _: own)
    await stage.judge("1", "2")
    (await stage.lessons()).learn(GOOD, ["a1"])
    make_run(tmp_path / "runs", attempts=5)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text("# House rules\n\nNever stripmine by hand.\n")
    (docs / "image.png").write_bytes(b"\x89PNG\0\0")
    (stage.run.path / "evicted").mkdir()
    (stage.run.path / "evicted/turn3.txt").write_text("the user said: prefer portability\n")
    library = Library(stage.run, "// task.h: struct Args\n", "cpp", [docs], LessonShelf(store))
    cases = {
        "notes": ("false sharing", "knowledge/cpu-false-sharing.md"),
        "headers": ("omp_get_num_threads", "omp.h"),
        "documents": ("stripmine", "guide.md:1-3"),
        "this_run": ("portability", "evicted/turn3.txt:1-1"),
        "other_runs": ("wider blocks registers", "/attempts/a"),
        "lessons": ("halve", "lessons/1"),
    }
    for place, (query, cite) in cases.items():
        alone = library.search(query, 3, place)  # type: ignore[arg-type]
        assert any(cite in hit.cite for hit in alone.hits), place
        assert any(cite in hit.cite for hit in library.search(query, 6).hits), place
    assert library.search("task.h Args", 3, "headers").hits[0].path == "task.h"
    library.close()


async def test_notes_are_told_once_and_an_empty_place_says_why(stage: Stage, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "image.png").write_bytes(b"\x89PNG\0\0")
    library = Library(stage.run, "", "cpp", [docs])
    (note,) = library.search("image", 3, "documents").notes
    assert "image.png (binary)" in note
    assert library.search("image", 3, "documents").notes == []
    assert library.search("image", 3, "lessons").notes == ["this run keeps no lessons"]
    library.close()


async def test_lessons_that_can_t_be_read_are_told_of_in_the_same_search(stage: Stage, store: LessonStore) -> None:
    store.path.write_text("no database " * 100)
    library = Library(stage.run, "", "cpp", lessons=LessonShelf(store))
    found = library.search("vector loads", 3)
    assert found.hits and any("can't be used" in note for note in found.notes)
    library.close()


async def test_a_search_says_which_evicted_texts_it_has_not_read_yet(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(4):
        path = stage.run.path / stage.run.evicted.put(f"needle{i} in a long answer\n")
        os.utime(path, (1.7e9, 1.7e9))
    library = Library(stage.run, "", "cpp")
    monkeypatch.setattr("agents.library.PATIENCE", 0.0)
    notes = [library.search("needle0", 3, "this_run").notes for _ in range(4)]
    assert notes[:2] == [[f"{left} evicted texts are not read yet; later searches see them"] for left in (3, 2)]
    assert notes[3] == []
    assert all(library.search(f"needle{i}", 1, "this_run").hits for i in range(4))
    library.close()


async def test_what_another_run_indexed_is_not_read_again(stage: Stage, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text("needle\n")
    long_ago = 1.7e9
    os.utime(docs / "guide.md", (long_ago, long_ago))
    first = Library(stage.run, "", "cpp", [docs])
    first.search("needle", 3, "documents")
    first.close()
    (docs / "guide.md").chmod(0)
    (docs / "guide.md").write_bytes(b"NEEDLE\n")
    os.utime(docs / "guide.md", (long_ago, long_ago))
    second = Library(stage.run, "", "cpp", [docs])
    assert [hit.text for hit in second.search("needle", 3, "documents").hits] == ["needle"]
    second.close()


async def test_a_damaged_index_is_built_again(stage: Stage, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text("needle\n")
    library = Library(stage.run, "", "cpp", [docs])
    library.search("needle", 3, "documents")
    library.close()
    (path,) = (tmp_path / "cache/search").glob("documents-*.sqlite")
    path.write_bytes(b"overwritten" * 1000)
    again = Library(stage.run, "", "cpp", [docs])
    assert [hit.path for hit in again.search("needle", 3, "documents").hits] == [f"{docs}/guide.md"]
    again.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_cache_that_can_t_be_used_costs_time_only(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "file"))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text("needle\n")
    library = Library(stage.run, "", "cpp", [docs])
    assert len(library.search("needle", 3, "documents").hits) == 1
    library.close()


async def test_other_runs_are_followed_as_they_come_go_and_grow(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    monkeypatch.setattr("agents.shelves.RECHECK_SECONDS", 0.0)
    await stage.judge("1", "2")
    library = Library(stage.run, "", "cpp")

    def found() -> set[str]:
        return {hit.path.split("/")[0] for hit in library.search("softmax kept", 20, "other_runs").hits}

    assert found() == set()
    other = make_run(tmp_path / "runs", attempts=3, ended=False)
    assert found() == {other.id}
    damaged = make_run(tmp_path / "runs", attempts=2)
    (damaged.path / "attempts/a0/attempt.json").write_text("{")
    assert found() == {other.id}
    shutil.rmtree(other.path)
    assert found() == set()
    library.close()


async def test_one_run_learns_and_the_next_is_told_tests_and_confirms(
    store: LessonStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole graph twice: `learn` in the first run; the second run's planner reads it, tests it and searches it."""
    settings = {"lessons": str(store.path)}
    claim = {"claim": "Blocks of 64 halve the time of stub", "operation": "stub reference", "says": "helps"}
    first = set_up(tmp_path / "first", monkeypatch)
    learnt = calls("learn", claim | {"attempts": ["a1"]})
    first.script([proposal("larger blocks")], [judge(64), says("Done.")], [learnt, reading("a1")])
    await first.play(settings=settings)
    (lesson,) = store.all()
    assert (lesson.says, lesson.confirmed, lesson.evidence[0].run) == ("helps", 1, first.run.id)
    second = set_up(tmp_path / "second", monkeypatch)
    looked = calls("search", {"query": "halve", "where": "lessons"})
    tested = calls("propose", {"hypotheses": [plan() | {"lessons": [lesson.id]}]})
    second.script([looked, tested], [judge(64), says("Done.")], [reading("a1")])
    await second.play(settings=settings)
    opening, answered = second.models["planner"].heard
    assert any(message.label == "lessons" and claim["claim"] in message.text for message in opening)
    assert [hit["at"] for hit in json.loads(answered[-1].text)["hits"]] == [f"lessons/{lesson.id}"], answered[-1].text
    (confirmed,) = store.all()
    assert (confirmed.confirmed, confirmed.evidence[1].run, confirmed.used is None) == (2, second.run.id, False)
