"""The full-text index: code-aware words, citations, replacement, and queries that are never syntax."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.index import CHUNK_LINES, Document, Index, words_of

KERNEL = '#include "task.h"\nvoid blockTile() { acc = _mm512_fmadd_pd(a, b, acc); }\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("_mm512_fmadd_pd", {"_mm512_fmadd_pd", "mm512", "fmadd", "pd", "512"}),
        ("blockTile", {"blocktile", "block", "tile"}),
        ("HTTPServer2", {"httpserver2", "http", "server"}),
        ("-ffast-math", {"ffast", "math"}),
        ("args.x_d0", {"args", "x_d0", "x", "d0"}),
        ("für", {"für"}),
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
        index.remove("a")
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


@given(st.text(max_size=60))
def test_no_query_and_no_text_is_ever_syntax(text: str) -> None:
    with Index() as index:
        index.add([Document("any", text), Document("fixed", 'NEAR( "x" AND * OR ^:-')])
        hits = index.search(text, 3)
        assert len(hits) <= 3
        if any(word.isascii() and word.isalnum() for word in words_of(text)):
            assert "any" in {hit.path for hit in hits}
