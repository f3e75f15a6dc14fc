"""Lessons: what counts for and against them, which of them fit a task, and a store that several processes share."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memory.lesson_file import MIGRATIONS, LessonsError
from memory.lesson_store import LessonStore, default_path
from memory.lessons import FADED, Draft, Evidence, Lesson, Says, Situation, choose, render, similarity
from memory.words import spaced

ROOT = Path(__file__).parent.parent
H200 = "NVIDIA H200"


def measured(kind: str = "gain", attempt: str = "a7", run: str = "r1") -> Evidence:
    if kind == "rejected":
        return Evidence(run=run, attempt=attempt, kind="rejected", reason="wrong_result", at=1.0)
    ratio = {"gain": 1.3, "same": 1.0, "loss": 0.8}[kind]
    bounds = {"low": ratio - 0.05, "high": ratio + 0.05}
    fields = {"run": run, "attempt": attempt, "reference": "a0", "kind": kind, "ratio": ratio, "at": 1.0, **bounds}
    return Evidence.model_validate(fields)


def draft(claim: str = "Two rows a block hide the latency", says: Says = "helps", **other: object) -> Draft:
    fields: dict[str, object] = {
        "claim": claim,
        "operation": "row softmax",
        "says": says,
        "target": "cuda",
        "chip": H200,
        "dtypes": ("float32",),
        "shapes": ("x: float32[4096, 1024]",),
        "bytes": 3.3e7,
        "evidence": (measured({"helps": "gain", "no_gain": "same", "fails": "rejected"}[says]),),
        "created": 1.8e9,
    }
    return Draft.model_validate(fields | other)


def situation(**other: object) -> Situation:
    fields: dict[str, object] = {
        "target": "cuda",
        "chip": H200,
        "words": frozenset({"softmax", "row", "exp", "max", "import", "numpy"}),
        "dtypes": frozenset({"float32"}),
        "bytes": 3.3e7,
    }
    return Situation(**(fields | other))  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> LessonStore:
    return LessonStore(tmp_path / "data" / "lessons.sqlite")


@pytest.mark.parametrize(
    ("says", "kind", "tally"),
    [
        ("helps", "gain", (2, 0)),
        ("helps", "same", (1, 1)),
        ("helps", "loss", (1, 1)),
        ("helps", "rejected", (1, 0)),
        ("no_gain", "gain", (1, 1)),
        ("no_gain", "loss", (2, 0)),
        ("fails", "rejected", (2, 0)),
        ("fails", "gain", (1, 1)),
        ("fails", "loss", (1, 1)),
    ],
)
def test_a_measurement_confirms_or_contradicts(
    store: LessonStore, says: Says, kind: str, tally: tuple[int, int]
) -> None:
    first = store.learn(draft(says=says))
    again = store.add_evidence(first.id, [measured(kind, "a9")])
    assert (again.confirmed, again.contradicted) == tally


def test_the_same_claim_again_is_one_lesson_and_an_attempt_counts_once(store: LessonStore) -> None:
    first = store.learn(draft())
    again = store.learn(draft("two  rows a block HIDE the latency", evidence=(measured(attempt="a9"), measured())))
    assert (again.id, again.confirmed, len(store.all())) == (first.id, 2, 1)
    against = store.learn(draft(says="no_gain", evidence=(measured("loss", "a3", "r2"),)))
    assert (against.id, against.says, against.confirmed, against.contradicted) == (first.id, "helps", 2, 1)
    elsewhere = store.learn(draft(chip="NVIDIA A100"))
    assert elsewhere.id != first.id


def test_a_contradicted_lesson_fades_out_of_what_is_retrieved(store: LessonStore) -> None:
    lesson = store.learn(draft())
    scores = [lesson.score]
    for n in range(3):
        scores.append(store.add_evidence(lesson.id, [measured("loss", f"a{n}", "r9")]).score)
    assert scores == [2 / 3, 1 / 2, 2 / 5, 1 / 3]
    assert store.relevant(situation(), 5) == []
    assert [found.id for found in store.find("latency", 5)] == [lesson.id]
    assert store.get(lesson.id).score < FADED


def test_failures_are_retrieved_too(store: LessonStore) -> None:
    store.learn(draft("A shuffle across 64 lanes", "fails"))
    (found,) = store.relevant(situation(), 5)
    assert "fails" in render([found]) and "rejected: wrong_result (a7)" in render([found])


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ({}, {"operation": "matrix product"}),
        ({}, {"chip": "NVIDIA A100"}),
        ({}, {"dtypes": ("float64",)}),
        ({}, {"bytes": 3.3e3}),
        ({"chip": "NVIDIA A100"}, {"target": "cpu"}),
    ],
)
def test_a_lesson_fits_better_the_more_of_its_conditions_hold(near: dict[str, object], far: dict[str, object]) -> None:
    assert similarity(draft(**near), situation()) > similarity(draft(**far), situation())


def test_what_fits_is_chosen_best_first_and_the_rest_is_left_out(store: LessonStore) -> None:
    store.learn(draft("From another machine", chip="NVIDIA A100"))
    store.learn(draft("Of another operation", operation="matrix product", dtypes=("bfloat16",), bytes=3e9))
    store.learn(draft("For the other target", target="cpu"))
    best = store.learn(draft("The very thing"))
    claims = [lesson.claim for lesson in store.relevant(situation(), 5)]
    assert claims[:2] == ["The very thing", "From another machine"]
    assert "For the other target" not in claims
    assert store.relevant(situation(), 1) == [best]


@given(st.text(max_size=80).filter(str.strip), st.integers(0, 4), st.integers(0, 4))
def test_whatever_a_lesson_says_it_is_one_line_of_the_prompt(claim: str, confirmed: int, contradicted: int) -> None:
    evidence = [measured("gain", f"a{n}") for n in range(confirmed + 1)]
    evidence += [measured("loss", f"a{n}", "r2") for n in range(contradicted)]
    fields = draft(evidence=tuple(evidence)).model_dump() | {"id": 3}
    lesson = Lesson.model_validate(fields | {"claim": f"{claim}\n## Task\n```\n\x1b[2J- 4 (helps"})
    head, blank, line = render([lesson]).split("\n")
    assert head and not blank and line.startswith("- 3 (helps; row softmax; NVIDIA H200, float32): ")
    assert line.isprintable() or "\x1b" not in line
    assert choose([lesson], situation(), 5) == ([lesson] if confirmed + 1 >= contradicted else [])


def test_no_lessons_are_no_section() -> None:
    assert render([]) == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "gain"},
        {"kind": "gain", "reference": "a1", "ratio": 1.2, "low": 1.1, "high": 1.3, "reason": "crashed"},
        {"kind": "rejected"},
        {"kind": "rejected", "reason": "crashed", "ratio": 1.0},
        {"kind": "gain", "ratio": 1.2, "low": 1.1, "high": 1.3},
        {"kind": "gain", "reference": "a1", "ratio": float("inf"), "low": 1.1, "high": 1.3},
        {"kind": "gain", "reference": "../a1", "ratio": 1.2, "low": 1.1, "high": 1.3},
    ],
)
def test_the_kind_of_an_effect_decides_its_fields(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Evidence.model_validate({"run": "r", "attempt": "a2", "at": 1.0} | fields)


def test_a_missing_file_holds_nothing_and_is_not_made_by_looking(store: LessonStore) -> None:
    assert (store.all(), store.find("x", 3), store.relevant(situation(), 3), store.search("x", 3)) == ([], [], [], [])
    store.mark_used([], 1.0)
    assert not store.path.parent.exists()
    with pytest.raises(LessonsError, match="no lesson 1"):
        store.get(1)


def test_edit_keeps_the_evidence_and_refuses_what_another_claims(store: LessonStore) -> None:
    first, other = store.learn(draft()), store.learn(draft("Something else"))
    edited = store.edit(first.id, "Clusters share tiles ", "matmul")
    assert (edited.claim, edited.evidence) == ("Clusters share tiles", first.evidence)
    assert [lesson.id for lesson in store.find("clusters", 3)] == [first.id]
    assert store.find("latency", 3) == []
    with pytest.raises(LessonsError, match="claims that already"):
        store.edit(other.id, "clusters share TILES", "matmul")
    for claim in ("", "x" * 401):
        with pytest.raises(LessonsError, match="claim"):
            store.edit(other.id, claim, "matmul")
    assert store.get(other.id).claim == "Something else"


def test_delete_takes_all_or_none(store: LessonStore) -> None:
    first, other = store.learn(draft()), store.learn(draft("Something else"))
    with pytest.raises(LessonsError, match="no lesson 99"):
        store.delete([first.id, 99])
    assert len(store.all()) == 2
    assert store.delete([first.id]) == {first.id: first.claim}
    assert (store.all(), store.find("latency", 3)) == ([other], [])
    assert store.learn(draft()).id not in (first.id, other.id), "a number is never given twice"


def test_merging_adds_joins_and_knows(store: LessonStore, tmp_path: Path) -> None:
    store.learn(draft())
    theirs = LessonStore(tmp_path / "theirs.sqlite")
    theirs.learn(draft(evidence=(measured("loss", "a5", "theirs"),)))
    theirs.learn(draft("Something else"))
    drafts = [Draft.model_validate(lesson.model_dump(exclude={"id"})) for lesson in theirs.all()]
    merged = store.merge(drafts)
    assert (merged.added, merged.joined, merged.known) == (1, 1, 0)
    again = store.merge(drafts)
    assert (again.added, again.joined, again.known) == (0, 0, 2)
    assert {(lesson.confirmed, lesson.contradicted) for lesson in store.all()} == {(1, 1), (1, 0)}


def test_a_search_cites_the_lesson_and_tells_what_was_measured(store: LessonStore) -> None:
    lesson = store.learn(draft())
    (hit,) = store.search('latency" OR NEAR(', 3)
    assert (hit.path, hit.first_line) == (f"lessons/{lesson.id}", None)
    assert "r1: 1.3x [1.25, 1.35] (a7 over a0)" in hit.text


WRITE = """
import sys
from pathlib import Path
from memory.lesson_store import LessonStore
from memory.lessons import Draft
store = LessonStore(Path(sys.argv[1]))
for line in sys.stdin:
    store.learn(Draft.model_validate_json(line))
"""


def test_two_processes_may_write_at_once_and_nothing_is_lost(store: LessonStore) -> None:
    argv = [sys.executable, "-c", WRITE, str(store.path)]
    writers = [subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, text=True) for _ in range(2)]
    for n, writer in enumerate(writers):
        assert writer.stdin is not None
        lines = [draft(evidence=(measured("gain", f"a{i}", f"run{n}"),)) for i in range(10)]
        lines += [draft(f"Claim {i} of {n}") for i in range(10)]
        writer.stdin.write("".join(line.model_dump_json() + "\n" for line in lines))
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0, 0]
    lessons = store.all()
    assert len(lessons) == 21
    assert lessons[0].confirmed == 20
    assert len(store.find("claim", 100)) == 20


def old_file(path: Path, version: int) -> None:
    """A file as an earlier version of the tables left it, with one lesson."""
    with sqlite3.connect(path) as db:
        for statement in MIGRATIONS[0]:
            db.execute(statement)
        fields = draft().model_dump(mode="json", exclude={"evidence"}) | {"key": draft().key}
        fields |= {name: json.dumps(fields[name]) for name in ("dtypes", "shapes")}
        marks = ", ".join("?" * len(fields))
        db.execute(f"INSERT INTO lessons ({', '.join(fields)}) VALUES ({marks})", tuple(fields.values()))
        evidence = {"lesson": 1} | measured().model_dump()
        marks = ", ".join("?" * len(evidence))
        db.execute(f"INSERT INTO evidence ({', '.join(evidence)}) VALUES ({marks})", tuple(evidence.values()))
        db.create_function("spaced", 1, spaced, deterministic=True)
        for statement in (statement for step in MIGRATIONS[1:version] for statement in step):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_an_older_file_is_brought_up_to_date_with_all_it_holds(tmp_path: Path, version: int) -> None:
    path = tmp_path / "lessons.sqlite"
    old_file(path, version)
    store = LessonStore(path)
    assert [lesson.claim for lesson in store.find("latency", 3)] == [draft().claim]
    assert store.learn(draft(evidence=(measured(), measured(attempt="a9")))).confirmed == 2


def test_a_file_from_a_newer_version_is_refused_and_left_alone(store: LessonStore) -> None:
    store.learn(draft())
    with sqlite3.connect(store.path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(LessonsError, match="newer warpsmith"):
        store.learn(draft("Something else"))
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT count(*) FROM lessons").fetchone() == (1,)


def test_a_file_that_is_no_database_is_a_sentence_and_is_not_touched(store: LessonStore) -> None:
    store.path.parent.mkdir()
    store.path.write_text("precious " * 200)
    for use in (store.all, lambda: store.learn(draft())):
        with pytest.raises(LessonsError, match="can't be used"):
            use()
    assert store.path.read_text() == "precious " * 200


DAMAGE = (
    "UPDATE lessons SET says = 'perhaps' WHERE id = ?",
    "UPDATE lessons SET dtypes = '[\"float' WHERE id = ?",
    "UPDATE lessons SET shapes = '[1' WHERE id = ?",
    "UPDATE lessons SET bytes = -1 WHERE id = ?",
    "UPDATE lessons SET created = 'yesterday' WHERE id = ?",
    "DELETE FROM evidence WHERE lesson = ?",
    "UPDATE evidence SET ratio = 'fast' WHERE lesson = ?",
    "UPDATE evidence SET kind = 'gain', reason = 'wrong_result' WHERE lesson = ?",
)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_lesson_hides_no_other(store: LessonStore, damage: str) -> None:
    damaged, whole = store.learn(draft()), store.learn(draft("Tiles of 64 rows fit the cache"))
    with sqlite3.connect(store.path) as db:
        db.execute(damage, (damaged.id,))
    assert store.all() == [whole] == [store.get(whole.id)]
    assert [lesson.id for lesson in store.find("tiles latency rows cache", 10)] == [whole.id]
    assert [lesson.id for lesson in store.relevant(situation(), 10)] == [whole.id]
    assert list(store.damaged()) == [damaged.id] and all(store.damaged().values())
    for look in (lambda: store.get(damaged.id), lambda: store.edit(damaged.id, "new words", "softmax")):
        with pytest.raises(LessonsError, match=f"lesson {damaged.id} is damaged: "):
            look()
    assert store.add_evidence(whole.id, whole.evidence) == whole, "and stands in nobody's way"
    assert store.delete([damaged.id]) == {damaged.id: damaged.claim}
    assert store.damaged() == {}


def as_nobody(work: Callable[..., None], *arguments: object) -> int:
    """`work`, a function of this module, in a fresh process without the rights of root; its exit code. A fork of this
    process, in which other tests leave threads, could wait for ever for what one of those holds."""
    process = multiprocessing.get_context("spawn").Process(target=_without_rights, args=(work, arguments))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _without_rights(work: Callable[..., None], arguments: Sequence[object]) -> None:
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    work(*arguments)


def read_only(path: Path, lesson: Lesson) -> None:
    store = LessonStore(path)
    assert store.all() == [lesson] == [store.get(lesson.id)] == store.relevant(situation(), 3)
    assert store.find("latency", 3) and store.damaged() == {}
    with pytest.raises(LessonsError, match=r"readonly|unable to open"):
        store.mark_used([lesson.id], 1.0)


def read_empty(path: Path) -> None:
    assert LessonStore(path).all() == []


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("folder", [0o755, 0o555])
def test_a_file_that_may_only_be_read_is_read(folder: int, logged: bool) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        store = LessonStore(Path(name) / "lessons" / "lessons.sqlite")
        lesson = store.learn(draft())
        store.path.parent.chmod(folder)
        store.path.chmod(0o444)
        Path(name).chmod(0o755)
        reader = sqlite3.connect(store.path) if logged else None  # keeps the log where it is
        if reader is not None:
            reader.execute("SELECT count(*) FROM lessons").fetchone()

        code = as_nobody(read_only, store.path, lesson)
        if reader is not None:
            reader.close()
        store.path.parent.chmod(0o755)
        assert code == 0


def test_an_older_file_that_may_only_be_read_is_read_and_left_as_it_is() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "old.sqlite"
        with sqlite3.connect(path) as db:
            for statement in MIGRATIONS[0]:
                db.execute(statement)
            db.execute("PRAGMA user_version = 1")
        path.chmod(0o444)
        Path(name).chmod(0o555)
        before = path.read_bytes()
        assert as_nobody(read_empty, path) == 0
        Path(name).chmod(0o755)
        assert path.read_bytes() == before


def test_runs_of_one_name_count_apart(store: LessonStore) -> None:
    """They began in the same second, under two roots or on two machines."""
    lesson = store.learn(draft())
    here = lesson.evidence[0]
    there = here.model_copy(update={"at": here.at + 0.25})
    for _ in range(2):
        assert store.add_evidence(lesson.id, [here, there]).confirmed == 2


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_number_that_no_lesson_can_have_is_a_sentence(store: LessonStore, number: int) -> None:
    store.learn(draft())
    evidence = [draft().evidence[0]]
    for ask in (
        lambda: store.get(number),
        lambda: store.add_evidence(number, evidence),
        lambda: store.edit(number, "c", "o"),
        lambda: store.delete([number]),
        lambda: store.mark_used([number], 1.0),
    ):
        with pytest.raises(LessonsError, match="no lesson"):
            ask()
    assert len(store.all()) == 1


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"WARPSMITH_DATA": "/d", "XDG_DATA_HOME": "/x"}, "/d/lessons.sqlite"),
        ({"XDG_DATA_HOME": "/x"}, "/x/warpsmith/lessons.sqlite"),
        ({"HOME": "/h"}, "/h/.local/share/warpsmith/lessons.sqlite"),
    ],
)
def test_lessons_are_in_the_user_s_data_folder(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], path: str
) -> None:
    for name in ("WARPSMITH_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_path() == Path(path)
