from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.tokens import COUNTER
from memory.view import OVERHEAD, SHORTEST, Section, ViewTooLarge, clip, cost, fit, shorten


def total(sections: list[Section]) -> int:
    return sum(COUNTER.count(section.text) + OVERHEAD for section in sections)


def test_what_matters_least_gives_way_first_and_the_order_stays() -> None:
    old = Section("old", "old detail " * 200, ("old", ""), keep=1)
    new = Section("new", "new detail " * 200, (lambda: "new", ""), keep=2)
    ledger = Section("ledger", "a0 | - | kept\n" * 50, keep=9)
    sections = [ledger, old, new]
    assert fit(sections, 10_000, COUNTER) == sections
    assert [s.label for s in fit(sections, total([ledger, new]) + 30, COUNTER)] == ["ledger", "old", "new"]
    assert [(s.label, s.text) for s in fit(sections, total([ledger, new]), COUNTER)][1] == ("new", new.text)
    assert [s.label for s in fit(sections, total([ledger]), COUNTER)] == ["ledger"]


def test_a_shorter_form_is_made_only_when_it_is_needed() -> None:
    def never() -> str:
        raise AssertionError("nobody needs this")

    fit([Section("a", "a " * 100, (never,), keep=1), Section("b", "b " * 900, ("",), keep=0)], 200, COUNTER)


def test_a_section_that_may_be_cut_loses_its_middle_and_says_so() -> None:
    (kernel,) = fit([Section("kernel", "head " + "body " * 5000 + "tail", may_be_cut=True)], 700, COUNTER)
    assert kernel.text.startswith("head") and kernel.text.endswith("tail")
    assert "characters left out" in kernel.text and cost(kernel.text, COUNTER) <= 700


def test_the_best_is_cut_after_all_else() -> None:
    parent = Section("parent", "parent line\n" * 1500, keep=31, may_be_cut=True)
    best = Section("best", "best line\n" * 1500, keep=32, may_be_cut=True)
    kept = fit([best, parent], cost(best.text, COUNTER) + 2000, COUNTER)
    assert kept[0] == best and "left out" in kept[1].text


def test_what_can_not_be_made_to_fit_is_an_error_with_both_figures() -> None:
    with pytest.raises(ViewTooLarge) as caught:
        fit([Section("task", "word " * 900), Section("kernel", "x = y;\n" * 4000, may_be_cut=True)], 800, COUNTER)
    assert caught.value.budget == 800 < caught.value.needed < 2000


SECTIONS = st.builds(
    Section,
    st.sampled_from(["a", "b", "c"]),
    st.text(max_size=60).map(lambda text: text * 40),
    st.sampled_from([(), ("",), ("short", "")]),
    st.integers(0, 5),
    st.booleans(),
)


@given(st.lists(SECTIONS, max_size=8), st.integers(60, 5000))
@settings(max_examples=60, deadline=None)
def test_the_budget_holds_or_it_is_an_error(sections: list[Section], budget: int) -> None:
    try:
        chosen = fit(sections, budget, COUNTER)
    except ViewTooLarge as error:
        fixed = [s for s in sections if not s.shorter]
        assert (
            budget
            < error.needed
            <= sum(min(cost(s.text, COUNTER), SHORTEST * 3) for s in fixed) + total([s for s in sections if s.shorter])
        )
        return
    assert total(chosen) <= budget
    assert all(section.text for section in chosen)
    firm = [s for s in sections if not s.shorter and not s.may_be_cut and s.text]
    assert [s for s in chosen if s in firm] == firm


def test_shorten_leaves_short_texts_alone() -> None:
    assert shorten("short", 100, COUNTER) == "short"
    assert COUNTER.count(shorten("word " * 4000, 200, COUNTER)) <= 200


@given(st.text(max_size=3000), st.integers(0, 500), st.integers(0, 500))
@settings(max_examples=60)
def test_a_clipped_text_begins_and_ends_as_it_did(text: str, head: int, tail: int) -> None:
    short = clip(text, head, tail, "evicted/x.txt")
    if short != text:
        begin, _, rest = short.partition("\n… ")
        end = rest.partition(" …\n")[2]
        assert text.startswith(begin) and text.endswith(end) and len(begin) <= head and len(end) <= tail
        assert f"{len(text) - len(begin) - len(end)} characters left out; whole in evicted/x.txt" in rest
