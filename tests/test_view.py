from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.tokens import ByteBound
from memory.view import OVERHEAD, Section, fit, shorten

COUNTER = ByteBound()


def cost(sections: list[Section]) -> int:
    return sum(COUNTER.count(section.text) + OVERHEAD for section in sections)


def test_what_matters_least_gives_way_first_and_the_order_stays() -> None:
    old = Section("old", "old detail " * 200, ("old", ""), keep=1)
    new = Section("new", "new detail " * 200, ("new", ""), keep=2)
    ledger = Section("ledger", "a0 | - | kept\n" * 50)
    sections = [ledger, old, new]
    assert fit(sections, 10_000, COUNTER) == sections
    assert [s.label for s in fit(sections, cost([ledger, new]) + 30, COUNTER)] == ["ledger", "old", "new"]
    assert [(s.label, s.text) for s in fit(sections, cost([ledger, new]), COUNTER)][1] == ("new", new.text)
    assert [s.label for s in fit(sections, cost([ledger]), COUNTER)] == ["ledger"]


def test_a_section_that_must_stay_is_cut_in_its_middle_and_says_so() -> None:
    (kernel,) = fit([Section("kernel", "head " + "body " * 5000 + "tail")], 500, COUNTER)
    assert kernel.text.startswith("head") and kernel.text.endswith("tail")
    assert "characters left out" in kernel.text


@given(
    st.lists(st.builds(Section, st.text(), st.text(), st.just(("",)) | st.just(())), max_size=8), st.integers(60, 5000)
)
def test_the_budget_holds_whatever_the_sections(sections: list[Section], budget: int) -> None:
    chosen = fit(sections, budget, COUNTER)
    assert cost(chosen) <= max(budget, 3 * OVERHEAD * len(sections))


def test_shorten_leaves_short_texts_alone() -> None:
    assert shorten("short", 100, COUNTER) == "short"
    assert COUNTER.count(shorten("word " * 4000, 200, COUNTER)) <= 200


@given(st.text(max_size=2000))
def test_the_count_is_bounded_by_the_bytes_and_adds_up(text: str) -> None:
    count = COUNTER.count(text)
    assert len(text.encode()) / 8 <= count + 1
    assert count <= len(text.encode())
    assert COUNTER.count(text + "\n" + text) <= 2 * count + 1


def test_the_count_is_above_what_vocabularies_make_of_it() -> None:
    known = {"    for (int64_t i = 0; i < n; ++i) {\n": 16, "The quick brown fox jumps over the lazy dog.": 10}
    for text, tokens in known.items():
        assert tokens <= COUNTER.count(text) <= 3 * tokens
