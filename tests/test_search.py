"""One ranking over strangers: sources that know nothing of each other, bounded output, citations."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.index import Index
from memory.passages import Document
from tools.errors import InfrastructureError
from tools.headers import header_folders
from tools.search import MOST_CHARACTERS, MOST_OF_ONE, search

NOTES = Path(__file__).parents[1] / "prompts" / "knowledge"


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
    assert hits[-1].last_line is not None and hits[-1].last_line < 10


def test_one_hit_never_takes_all_the_room() -> None:
    index = Index()
    index.add([Document("wide", "needle " + "x" * 30_000), Document("small", "needle")])
    hits = search([index], "needle", 6)
    assert {hit.path for hit in hits} == {"wide", "small"}
    assert all(len(hit.text) <= MOST_OF_ONE + 2 for hit in hits)


def test_each_of_many_long_hits_shows_the_word_that_was_looked_for() -> None:
    index = Index()
    index.add(Document(f"line{n}", f"{n} " + "x " * 1500 + "needle" + " y" * 1500) for n in range(3))
    long = [f"{k} " + "z" * 100 for k in range(39)]
    index.add(Document(f"lines{n}", "\n".join([*long[:30], f"a needle {n}", *long[30:]])) for n in range(3))
    hits = search([index], "needle", 6)
    assert len({hit.path for hit in hits}) == 6 and all("needle" in hit.text for hit in hits)
    assert sum(len(hit.text) for hit in hits) <= MOST_CHARACTERS
    for hit in hits:
        if hit.path.startswith("lines"):
            assert hit.first_line is not None and hit.last_line is not None
            assert hit.first_line <= 31 <= hit.last_line


def test_what_has_no_lines_is_cited_by_its_path() -> None:
    index = Index()
    index.add([Document("manual.pdf#page=12", "bank conflicts", numbered=False)])
    assert search([index], "bank", 1)[0].cite == "manual.pdf#page=12"


def test_no_words_and_no_matches_are_empty_answers(notes: Index) -> None:
    assert search([notes], "", 3) == search([notes], "!!!", 3) == search([], "tile", 3) == []
    assert search([notes], "zyzzyva", 3) == []


def test_the_compiler_s_headers_hold_openmp_and_the_standard_library() -> None:
    folders = header_folders("cpp")
    assert any((folder / "omp.h").is_file() for folder in folders)
    assert any((folder / "vector").is_file() for folder in folders)
    assert all(folder.is_absolute() for folder in folders)


def test_a_machine_without_the_toolkit_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_toolkit() -> None:
        raise InfrastructureError("no CUDA compiler: there is no nvcc here")

    monkeypatch.setattr("tools.headers.find_toolkit", no_toolkit)
    with pytest.raises(InfrastructureError, match="no nvcc"):
        header_folders("cuda")
