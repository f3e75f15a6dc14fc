"""One ranking over strangers: sources that know nothing of each other, bounded output, citations."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.index import Document, Index
from tools.headers import Texts, toolchain_headers
from tools.search import MOST_CHARACTERS, search

NOTES = Path(__file__).parents[1] / "prompts" / "knowledge"
HEADER = "#pragma once\n\n/// The arguments of one call.\nstruct Args {\n  const float* x;\n};\n\nint unrelated();\n"


@pytest.fixture(scope="module")
def notes() -> Index:
    index = Index()
    index.add(Document(f"knowledge/{path.name}", path.read_text()) for path in sorted(NOTES.glob("cpu-*.md")))
    return index


def test_there_are_notes_and_each_says_symptom_change_and_when_not() -> None:
    paths = sorted(NOTES.glob("cpu-*.md"))
    assert len(paths) >= 12
    for path in paths:
        lines = path.read_text().splitlines()
        assert lines[0].startswith("# "), path
        assert [line for line in lines if line.startswith("## ")] == ["## Symptom", "## Change", "## When not"], path


@pytest.mark.parametrize(
    ("symptom", "note"),
    [
        ("strided access", "cpu-loop-order"),
        ("its pointers might overlap", "cpu-aliasing"),
        ("floating-point sum not vectorised", "cpu-reductions"),
        ("false sharing", "cpu-false-sharing"),
        ("busy_cores openmp_wait", "cpu-load-balance"),
        ("parallel_regions overhead", "cpu-openmp-overhead"),
        ("page_faults", "cpu-page-faults"),
        ("softmax exp", "cpu-math-functions"),
        ("stencil time steps", "cpu-time-blocking"),
        ("histogram atomic", "cpu-histograms"),
    ],
)
def test_a_symptom_as_the_profile_names_it_finds_its_note(notes: Index, symptom: str, note: str) -> None:
    assert search([notes], symptom, 3)[0].path == f"knowledge/{note}.md"


def test_passages_of_different_sources_are_ranked_together() -> None:
    first, second = Index(), Index()
    first.add([Document("one", "tile tile tile loop"), Document("two", "nothing to see")])
    second.add([Document("three", "loop tile registers"), Document("four", "loop over rows")])
    hits = search([first, second], "registers tile", 4)
    assert [hit.path for hit in hits] == ["three", "one"]
    assert hits[0].score > hits[1].score > 0
    assert hits[0].cite == "three:1-1"


def test_the_output_is_bounded_and_a_cut_passage_cites_what_is_left() -> None:
    index = Index()
    index.add([Document(f"wide{n}", "\n".join([f"needle {n} " + "x" * 900] * 10)) for n in range(6)])
    hits = search([index], "needle", 6)
    assert sum(len(hit.text) for hit in hits) <= MOST_CHARACTERS + 10
    assert hits[-1].text.endswith("…")
    assert hits[-1].last_line < 10


def test_no_words_and_no_matches_are_empty_answers(notes: Index) -> None:
    assert search([notes], "", 3) == search([notes], "!!!", 3) == search([], "tile", 3) == []
    assert search([notes], "zyzzyva", 3) == []


def test_the_task_header_is_found_by_declaration() -> None:
    (hit,) = search([Texts({"task.h": HEADER})], "struct Args", 1)
    assert (hit.path, hit.first_line, hit.last_line) == ("task.h", 3, 6)
    assert hit.text.startswith("/// The arguments")


def test_the_toolchain_s_headers_hold_openmp() -> None:
    hits = search([toolchain_headers()], "omp_get_num_threads", 2)
    assert hits[0].path.endswith("omp.h")
    assert "omp_get_num_threads" in hits[0].text


def test_an_unreadable_text_is_skipped(tmp_path: Path) -> None:
    source = Texts({"gone": tmp_path / "gone.h", "here": "int here;"})
    assert [hit.path for hit in source.search("gone here", 5)] == ["here"]
