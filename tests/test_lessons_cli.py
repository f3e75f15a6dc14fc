"""`warpsmith lessons`: every command, bad input, and what stays when something goes wrong."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from app.inputs import documents_at, lessons_at
from memory.lesson_file import LessonsError
from memory.lesson_store import LessonStore
from tests.test_lessons import draft, measured
from tools.errors import WarpsmithError

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LessonStore:
    monkeypatch.setenv("WARPSMITH_DATA", str(tmp_path / "data"))
    store = LessonStore(tmp_path / "data" / "lessons.sqlite")
    store.learn(draft())
    store.learn(draft("Vectorise by hand", "no_gain", chip="AMD EPYC 7742", target="cpu", operation="stencil"))
    return store


def warpsmith(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(app, ["lessons", *map(str, arguments)], input=stdin)


def answer(*arguments: object) -> object:
    result = warpsmith(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def ids(*arguments: object) -> list[int]:
    listed = answer(*arguments)
    assert isinstance(listed, list)
    return [lesson["id"] for lesson in listed]


def test_they_are_listed_and_picked_by_words_and_chip(store: LessonStore) -> None:
    assert ids() == ids("list") == [1, 2]
    assert ids("list", "--text", "vectorised stencils") == [2]
    assert ids("list", "--chip", "h200") == [1]
    assert ids("list", "--chip", "h200", "--text", "stencil") == []
    table = warpsmith().output
    assert "Two rows a block hide the latency" in table and "AMD EPYC 7742" in table and "no gain" in table
    assert "no lessons that fit" in warpsmith("list", "--text", "zyzzyva").output


def test_one_is_shown_with_its_measurements(store: LessonStore) -> None:
    store.add_evidence(1, [measured("loss", "a9", "r9"), measured("rejected", "a4", "r9")])
    text = warpsmith("show", 1).output
    for words in ("1.3x [1.25, 1.35] (a7 over a0)", "against", "rejected: wrong_result (a4)", "last shown never"):
        assert words in text
    shown = answer("show", 1)
    assert isinstance(shown, dict)
    assert (shown["confirmed"], shown["contradicted"], shown["score"]) == (1, 1, 0.5)


def test_faded_ones_are_marked(store: LessonStore) -> None:
    store.add_evidence(1, [measured("loss", f"a{n}", "r9") for n in range(2)])
    assert "faded" in warpsmith("show", 1).output
    assert "no longer shown to planners" in warpsmith().output


def test_words_are_changed_by_options_and_by_an_editor(
    store: LessonStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert warpsmith("edit", 1, "--claim", "Three rows a block").exit_code == 0
    assert (store.get(1).claim, store.get(1).operation) == ("Three rows a block", "row softmax")
    editor = tmp_path / "my editor"
    editor.write_text("#!/bin/sh\nsed -i 's/Three/Four/; s/^operation:.*/operation: softmax: rows/' \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", f"'{editor}'")
    assert warpsmith("edit", 1).exit_code == 0
    assert (store.get(1).claim, store.get(1).operation) == ("Four rows a block", "softmax: rows")
    assert store.get(1).confirmed == 1


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "ended with 3"),
        (": > $1", "one line each"),
        ("echo 'claim: a' > $1; echo 'more' >> $1", "one line each"),
        ("echo 'claim:' > $1; echo 'operation: b' >> $1", "one line each"),
    ],
)
def test_an_editor_that_leaves_nonsense_changes_nothing(
    store: LessonStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    before = store.get(1)
    result = warpsmith("edit", 1)
    assert (result.exit_code, words in result.stderr, store.get(1)) == (2, True, before)


def test_deleting_takes_all_or_none(store: LessonStore) -> None:
    result = warpsmith("delete", 1, 7)
    assert (result.exit_code, len(store.all())) == (2, 2)
    assert "there is no lesson 7" in result.stderr
    assert "deleted 1: Two rows" in warpsmith("delete", 1).output
    assert [lesson.id for lesson in store.all()] == [2]


def test_what_is_exported_comes_back_elsewhere(store: LessonStore, tmp_path: Path) -> None:
    file = tmp_path / "lessons.jsonl"
    assert answer("export", file) == {"exported": 2, "file": str(file)}
    assert warpsmith("export").stdout == file.read_text()
    elsewhere = tmp_path / "elsewhere.sqlite"
    assert answer("import", file, "--lessons", elsewhere) == {"added": 2, "joined": 0, "known": 0}
    assert answer("import", file, "--lessons", elsewhere) == {"added": 0, "joined": 0, "known": 2}
    theirs = LessonStore(elsewhere)
    assert [lesson.model_dump() for lesson in theirs.all()] == [lesson.model_dump() for lesson in store.all()]
    theirs.add_evidence(1, [measured("loss", "a3", "theirs")])
    piped = warpsmith("export", "--lessons", elsewhere).stdout
    assert warpsmith("import", "-", stdin=piped).output.startswith("0 lessons added, 1 joined")
    assert store.get(1).contradicted == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("not json", "line 2: Invalid JSON"),
        ("[]", "line 2: Input should be an object"),
        ('{"claim": "c"}', "line 2: operation: Field required"),
        (draft().model_dump_json().replace('"helps"', '"perhaps"'), "line 2: says"),
        (draft().model_dump_json().replace('"ratio":1.3', '"ratio":NaN'), "line 2"),
        (draft().model_dump_json()[:-1] + ', "id": 3}', "line 2: id: Extra inputs"),
        ("x" * 2_000_000, "line 2: longer than"),
        (draft().model_dump_json().replace('"created":', '"created":1e300,"used":'), "line 2: created"),
        (draft(dtypes=()).model_dump_json().replace('"dtypes":[', f'"dtypes":["{"f" * 9000}"'), "line 2: dtypes"),
    ],
)
def test_a_file_with_a_line_that_is_no_lesson_is_refused_as_a_whole(
    store: LessonStore, tmp_path: Path, line: str, words: str
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(f"{draft('A good one').model_dump_json()}\n{line}\n")
    result = warpsmith("import", file, "--json")
    assert (result.exit_code, len(store.all())) == (2, 2)
    assert words in json.loads(result.stdout)["error"]["message"]
    assert "Nothing was imported" in result.stderr


def test_what_others_wrote_can_t_steer_the_terminal(store: LessonStore, tmp_path: Path) -> None:
    file = tmp_path / "hostile.jsonl"
    hostile = draft("\x1b[2J[red]gone[/red]\u202e\n| row |", operation="\x1b]0;title\x07op", chip="[bold]chip")
    file.write_text(hostile.model_dump_json() + "\n")
    assert warpsmith("import", file).exit_code == 0
    for arguments in ((), ("show", 3), ("edit", 3, "--operation", "x\x1b[1m"), ("delete", 3)):
        text = warpsmith(*arguments).output
        assert "\x1b]" not in text and "\x1b[2J" not in text and "\u202e" not in text
        assert arguments or "[red]gone[/red]" in text


@pytest.mark.parametrize("number", [9, 10**30])
@pytest.mark.parametrize("arguments", [("show",), ("edit", "--claim", "x"), ("delete",)])
def test_an_unknown_number_is_a_sentence(store: LessonStore, arguments: tuple[str, ...], number: int) -> None:
    result = warpsmith(*arguments, number)
    assert result.exit_code == 2
    assert "no lesson" in result.stderr and "lessons list" in result.stderr


def test_no_words_are_no_edit(store: LessonStore) -> None:
    before = store.get(1)
    for option in ("--claim", "--operation"):
        for words in ("", "  "):
            assert warpsmith("edit", 1, option, words).exit_code == 2
    assert store.get(1) == before


def test_a_file_that_isn_t_there_or_can_t_be_used_is_a_sentence(store: LessonStore, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_text("no database " * 100)
    for arguments in (("import", tmp_path / "none.jsonl"), ("list", "--lessons", broken)):
        result = warpsmith(*arguments)
        assert (result.exit_code, "Traceback" in result.stderr) == (2, False)
        assert "error:" in result.stderr


def test_the_command_works_as_a_process_of_its_own(store: LessonStore) -> None:
    argv = [sys.executable, "-m", "app.start", "lessons", "show", "1", "--json"]
    run = subprocess.run(argv, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["claim"] == "Two rows a block hide the latency"


def test_what_a_run_is_given_is_looked_at_before_it_begins(store: LessonStore, tmp_path: Path) -> None:
    assert lessons_at(None) == str(store.path)
    assert lessons_at("none") is None
    assert lessons_at(str(tmp_path / "new.sqlite")) == str(tmp_path / "new.sqlite")
    (tmp_path / "broken.sqlite").write_text("no database " * 100)
    with pytest.raises(LessonsError, match="can't be used"):
        lessons_at(str(tmp_path / "broken.sqlite"))
    assert documents_at(tmp_path) == tmp_path.resolve()
    with pytest.raises(WarpsmithError, match="to search"):
        documents_at(tmp_path / "nowhere")
