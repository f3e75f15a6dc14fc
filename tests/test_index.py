"""The full-text index: code-aware words, citations, replacement, common words, and queries that are never syntax."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import index as index_module
from memory.index import Entry, Index, is_damaged, remove_index
from memory.passages import CHUNK_CHARACTERS, CHUNK_LINES, Document, passages_of
from memory.words import words_of

ROOT = Path(__file__).parent.parent

KERNEL = '#include "task.h"\nvoid blockTile() { acc = _mm512_fmadd_pd(a, b, acc); }\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("_mm512_fmadd_pd", {"_mm512_fmadd_pd", "mm512", "fmadd", "pd", "512"}),
        ("blockTile", {"blocktile", "block", "tile"}),
        ("HTTPServer2", {"httpserver2", "http", "server"}),
        ("-ffast-math", {"ffast", "math"}),
        ("args.x_d0", {"args", "x_d0", "x", "d0"}),
        ("für “Maße”—x", {"für", "maße", "x"}),
    ],
)
def test_identifiers_are_found_whole_and_in_parts(text: str, words: set[str]) -> None:
    assert words <= set(words_of(text))


@pytest.mark.parametrize("query", ["fmadd", "_mm512_fmadd_pd", "tile", "BLOCKTILE"])
def test_code_is_found_by_a_part_of_an_identifier(query: str) -> None:
    with Index() as index:
        index.add([Document("attempts/a1/kernel.cpp", KERNEL), Document("other.cpp", "int unrelated;\n")])
        (hit,) = index.search(query, 5)
    assert (hit.path, hit.first_line, hit.last_line) == ("attempts/a1/kernel.cpp", 1, 2)


def test_a_hit_cites_the_lines_that_hold_the_word() -> None:
    lines = [f"filler {n};" if n % 15 else "" for n in range(1, 301)]
    lines[216] = "the needle is here"
    with Index() as index:
        index.add([Document("long.cpp", "\n".join(lines))])
        (hit,) = index.search("needle", 3)
    assert hit.first_line is not None and hit.last_line is not None
    assert hit.first_line <= 217 <= hit.last_line
    assert hit.last_line - hit.first_line < CHUNK_LINES
    assert hit.text == "\n".join(lines[hit.first_line - 1 : hit.last_line])


def test_a_long_note_is_cut_at_its_headings_and_a_short_one_is_not() -> None:
    note = "# Blocking\n\n## Symptom\nmisses\n\n## When not\nsmall\n"
    with Index() as index:
        index.add([Document("short.md", note), Document("long.md", note.replace("misses", "missed\n" * 50))])
        (short,) = [hit for hit in index.search("misses", 20) if hit.path == "short.md"]
        titles = {hit.title for hit in index.search("symptom missed small blocking", 20) if hit.path == "long.md"}
    assert (short.title, short.first_line, short.last_line) == ("Blocking", 1, 7)
    assert titles == {"Blocking", "Blocking — Symptom", "Blocking — When not"}


def test_a_changed_document_replaces_the_old_one_and_an_equal_one_costs_nothing() -> None:
    with Index() as index:
        assert index.add([Document("a", "alpha"), Document("b", "beta")]) == 2
        assert index.add([Document("a", "alpha"), Document("b", "gamma")]) == 1
        assert index.search("beta", 5) == []
        assert [hit.path for hit in index.search("gamma", 5)] == ["b"]
        index.remove(["a", "unknown"])
        assert index.search("alpha", 5) == []


def test_the_index_is_still_there_when_it_is_opened_again(tmp_path: Path) -> None:
    with Index(tmp_path / "index.sqlite") as index:
        index.add([Document("a.md", "persistent words")])
    with Index(tmp_path / "index.sqlite") as index:
        assert [hit.path for hit in index.search("persistent", 1)] == ["a.md"]


def test_titles_count_more_than_text() -> None:
    with Index() as index:
        body = "some words about other things and tiles"
        index.add([Document("x", body), Document("y", body.replace("tiles", "rows"), "Tiles")])
        assert [hit.path for hit in index.search("tiles", 2)] == ["y", "x"]


def test_several_threads_may_use_one_index() -> None:
    with Index() as index, ThreadPoolExecutor(4) as pool:
        added = list(pool.map(lambda n: index.add([Document(f"d{n}", f"common word{n}")]), range(40)))
        assert added == [1] * 40
        assert len(index.search("common", 100)) == 40


def test_a_source_holds_what_was_put_in_last_and_forgets_the_rest() -> None:
    first = [Document("run/a0", "alpha one", numbered=False), Document("run/a1", "alpha two", numbered=False)]
    with Index() as index:
        assert index.put([Entry("run", "1", first)]) == 1
        assert index.put([Entry("run", "1", [])]) == 0
        assert {hit.path for hit in index.search("alpha", 5)} == {"run/a0", "run/a1"}
        assert index.put([Entry("run", "2", first[1:], note="one is damaged")]) == 1
        (hit,) = index.search("alpha", 5)
        assert (hit.path, hit.first_line, hit.last_line) == ("run/a1", None, None)
        assert (index.notes(), index.stamps(), index.count()) == ({"run": "one is damaged"}, {"run": "2"}, 1)
        index.restamp("run", "3")
        assert index.put([Entry("run", "3", first)]) == 0
        index.remove(["run"])
        assert (index.search("alpha", 5), index.count(), index.stamps()) == ([], 0, {})


def test_passages_with_one_text_are_one_hit() -> None:
    with Index() as index:
        index.add([Document(f"attempts/a{n}/kernel.cpp", KERNEL) for n in range(30)])
        index.add([Document("attempts/a30/kernel.cpp", KERNEL.replace("acc", "sum"))])
        hits = index.search("fmadd", 6)
    assert len({hit.text for hit in hits}) == len(hits) == 2


def test_common_words_give_way_to_rare_ones_and_still_find_something_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MOST_SCORED", 10)
    with Index() as index:
        index.add([Document(f"d{n}", f"common plain number{n}" + " rare" * (n == 77)) for n in range(100)])
        index.add([Document("both", "plain usual"), *(Document(f"u{n}", f"usual {n}") for n in range(30))])
        assert [hit.path for hit in index.search("common rare", 3)] == ["d77"]
        assert [hit.path for hit in index.search("plain usual", 3)] == ["both"]
        assert len(index.search("common", 3)) == 3
        assert len(index.search("common usual", 3)) == 3
        assert index.search("common zyzzyva", 3)


def test_long_lines_and_control_characters_stay_within_a_passage() -> None:
    text = "head\n" + "x" * 9_990 + " needle\x1b[2J\x00\u202e" + "y" * 100 + "\r\nlast\rline"
    passages = list(passages_of(Document("minified.js", text)))
    assert all(len(passage.body) <= CHUNK_CHARACTERS for passage in passages)
    assert {(passage.first, passage.last) for passage in passages} == {(1, 1), (2, 2), (3, 4)}
    assert not any(mark in passage.body for passage in passages for mark in ("\x1b", "\x00", "\u202e", "\r"))
    with Index() as index:
        index.add([Document("minified.js", text)])
        hit = index.search("needle", 1)[0]
    assert (hit.first_line, hit.last_line) == (2, 2) and "needle" in hit.text


BUILD = """
import sys
from pathlib import Path
from memory.index import Entry, Index
from memory.passages import Document
index = Index(Path(sys.argv[1]))
for n in range(int(sys.argv[2])):
    index.put([Entry(f"s{n}", "1", [Document(f"s{n}", f"shared word{n} by {sys.argv[3]}")])])
    print(n, flush=True)
"""


def build(path: Path, count: int, name: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", BUILD, str(path), str(count), name]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_builder_that_is_killed_leaves_an_index_that_can_be_searched_and_finished(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    builder = build(path, 100_000, "killed")
    assert builder.stdout is not None
    for line in builder.stdout:
        if line.strip() == "20":
            builder.kill()
            break
    builder.wait()
    builder.stdout.close()
    with Index(path) as index:
        found = len(index.stamps())
        assert found >= 21 and len(index.search("shared", 1000)) == index.count() == found
        index.put(Entry(f"s{n}", "1", [Document(f"s{n}", f"shared word{n}")]) for n in range(found + 5))
        assert len(index.search("shared", 1000)) == index.count() == found + 5


def test_two_processes_may_build_one_index(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    builders = [build(path, 60, name) for name in ("one", "other")]
    assert [builder.communicate() and builder.returncode for builder in builders] == [0, 0]
    with Index(path) as index:
        assert index.count() == len(index.stamps()) == len(index.search("shared", 100)) == 60


def test_a_damaged_file_is_told_apart_and_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(sqlite3.DatabaseError) as raised:
        Index(path)
    assert is_damaged(raised.value)
    remove_index(path)
    with Index(path) as index:
        assert index.add([Document("a", "alpha")]) == 1


@given(st.text(max_size=60))
def test_no_query_and_no_text_is_ever_syntax(text: str) -> None:
    with Index() as index:
        index.add([Document("any", text), Document("fixed", 'NEAR( "x" AND * OR ^:-')])
        hits = index.search(text, 3)
        assert len(hits) <= 3
        if any(word.isascii() and word.isalnum() for word in words_of(text)):
            assert "any" in {hit.path for hit in hits}
