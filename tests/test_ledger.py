from __future__ import annotations

import re
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory import ledger
from memory.ledger import BLOCK, LedgerEntry
from memory.tokens import COUNTER

WORDS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=120)
KINDS = ("tiling", "vectorization", "memory_layout", "other")
ENTRIES = st.builds(
    LedgerEntry,
    attempt=st.integers(0, 500).map("a{}".format),
    parent=st.none() | st.integers(0, 500).map("a{}".format),
    change=WORDS,
    outcome=st.sampled_from(["kept", "same", "slower", "rejected", "unjudged"]),
    seconds=st.none() | st.floats(1e-7, 1e3),
    share_of_limit=st.none() | st.floats(1e-7, 1e4),
    note=WORDS,
    idea=WORDS,
    kind=st.sampled_from(KINDS),
    metric=WORDS,
    expected=WORDS,
    measured=WORDS,
)


def entry(number: int, **more: Any) -> LedgerEntry:
    values: dict[str, Any] = {
        "attempt": f"a{number}",
        "parent": f"a{number // 2}" if number else None,
        "change": f"edited kernel.cpp (+{number} -3) BLOCK=128 UNROLL=4 -O3 -march=native",
        "outcome": ("kept", "slower", "same", "slower")[number % 4],
        "seconds": 0.0123 / (1 + number / 50),
        "share_of_limit": 0.2 + number / 400,
        "note": f"0.{90 + number % 10}x",
        "idea": f"stage tile {number} of A in shared memory and keep it",
        "kind": KINDS[number % 4],
        "metric": "seconds",
        "expected": "-20 %",
        "measured": "-17%",
    }
    return LedgerEntry(**(values | more))


def run_of(count: int) -> list[LedgerEntry]:
    """A run's worth: one in five rejected."""
    failed = {"outcome": "rejected", "seconds": None, "share_of_limit": None, "measured": ""}
    note = {"note": "correct: wrong_result: y is wrong in 12 of 4096 elements, first at [3, 7]"}
    return [entry(i, **(failed | note if i % 5 == 4 else {})) for i in range(count)]


def ids_in(text: str) -> set[str]:
    return set(re.findall(r"\ba\d+\b", text))


def test_a_line_reads_as_the_header_says() -> None:
    told = LedgerEntry(
        attempt="a17",
        parent="a3",
        change="BLOCK=128 -O3",
        outcome="kept",
        seconds=0.001234,
        share_of_limit=0.41,
        note="1.2x",
        idea="wider blocks",
        metric="dram throughput",
        expected="+15 %",
        measured="+12%",
    )
    assert ledger.render([told]).splitlines() == [
        "attempt|parent|idea|change|expected→measured|outcome|ms|of limit|x the best by then, or why not",
        "a17|a3|wider blocks|BLOCK=128 -O3|dram throughput +15%→+12%|kept|1.23|41%|1.2x",
    ]


@given(st.lists(ENTRIES, max_size=6))
@settings(max_examples=60)
def test_every_entry_is_one_line_that_can_be_read_back(entries: list[LedgerEntry]) -> None:
    text = ledger.render(entries)
    read = ledger.parse("Prose before.\n" + text + "\nProse after | with a bar.")
    assert len(text.split("\n")) == 1 + len(entries)
    assert [(e.attempt, e.parent, e.outcome) for e in read] == [(e.attempt, e.parent, e.outcome) for e in entries]
    for was, now in zip(entries, read, strict=True):
        assert (was.seconds is None) == (now.seconds is None)
        if was.seconds is not None and now.seconds is not None:
            assert abs(now.seconds / was.seconds - 1) < 1e-2


def test_settings_that_an_edit_inherits_are_not_repeated_and_are_read_back() -> None:
    parent = entry(0, change="BLOCK=64 -O3", idea="")
    same = entry(1, parent="a0", change="edited kernel.cpp (+3 -1), x.h (+0 -2) BLOCK=64 -O3")
    other = entry(2, parent="a1", change="edited kernel.cpp (+3 -1) BLOCK=128 -O3")
    bare = entry(3, parent="a2", change="edited kernel.cpp (+3 -1)")
    text = ledger.render([parent, same, other, bare])
    cells = [line.split("|")[3] for line in text.splitlines()[1:]]
    assert cells == ["BLOCK=64 -O3", "edited", "edited BLOCK=128 -O3", "edited"]
    read = ledger.parse(text)
    assert [e.change for e in read[:3]] == ["BLOCK=64 -O3", "edited BLOCK=64 -O3", "edited BLOCK=128 -O3"]


def test_settings_are_never_cut_since_a_tuner_reads_them_back() -> None:
    change = " ".join(f"PARAMETER_{i}={2**i}" for i in range(16))
    assert ledger.parse(ledger.render([entry(0, change=change)]))[0].change == change


def test_two_hundred_lines_cost_at_most_forty_tokens_each() -> None:
    text = ledger.render(run_of(200))
    assert COUNTER.count(text) <= 40 * 200


LONG = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=30).map(
    lambda text: (text * 400)[:2000]
)


@given(st.lists(st.tuples(LONG, LONG, LONG), min_size=1, max_size=6), st.integers(0, 120))
@example([("Stage the tiles of operand B through shared memory ", "from 30 % to 60 % of it", "dram__throughput")], 200)
@example([("将操作数的行填充到六十四字节" * 60, "减少百分之二十的时间" * 40, "时间" * 40)], 60)
@example([("🏳️‍🌈👩‍👩‍👧" * 200, "🏳️‍🌈" * 99, "👩‍👩‍👧" * 99)], 60)
@settings(max_examples=30, deadline=None)
def test_lines_cost_at_most_forty_tokens_on_average_whatever_the_words(
    words: list[tuple[str, str, str]], count: int
) -> None:
    def told(i: int) -> LedgerEntry:
        text, expected, metric = words[i % len(words)]
        change = f"edited {text[:200]} " + " ".join(f"TUNABLE_{k}={i * k}" for k in range(12))
        said = {"idea": text, "note": f"correct: wrong_result: {text}", "expected": expected, "metric": metric}
        failed = {"seconds": None, "share_of_limit": None} if i % 3 else {}
        return entry(i, change=change, **said, **failed)

    entries = [told(i) for i in range(count)]
    made = ledger.brief_lines(entries)
    assert [line.partition("|")[0] for line in made] == [f"a{i}" for i in range(count)]
    assert all(ledger.parse(line) for line in made)
    assert sum(COUNTER.count(line + "\n") for line in made) <= 40 * count
    assert ledger.brief_lines(entries[: count // 2]) == made[: count // 2]


def test_lines_that_cost_little_are_not_cut() -> None:
    entries = [entry(i, change="edited", idea=f"pad rows to {i}") for i in range(60)]
    assert ledger.brief_lines(entries) == ledger.lines(entries)


@given(st.integers(0, 120), st.integers(0, 9000))
@settings(max_examples=60, deadline=None)
def test_every_attempt_is_there_whatever_the_budget(count: int, budget: int) -> None:
    entries = run_of(count)
    closed, newest = ledger.split(entries, budget, COUNTER)
    assert ids_in(closed + "\n" + newest) >= {e.attempt for e in entries}
    assert closed == "" or COUNTER.count(closed) <= max(budget, COUNTER.count(ledger.smallest(entries)) + 60)
    assert len(newest.splitlines()) == count % BLOCK


@given(st.integers(1, 150), st.integers(600, 9000))
@settings(max_examples=40, deadline=None)
def test_old_text_stays_byte_for_byte_between_two_steps(count: int, budget: int) -> None:
    """A longer ledger's first section begins with the shorter one's, except where condensing went a step further."""
    entries = run_of(count + BLOCK)
    shorter, longer = (ledger.split(entries[:n], budget, COUNTER)[0] for n in (count, count + BLOCK))
    condensed = [text.count("by kind of idea") for text in (shorter, longer)]
    if condensed == [0, 0]:
        assert longer.startswith(shorter)
    same = ledger.split(entries[: count // BLOCK * BLOCK], budget, COUNTER)[0]
    assert same == shorter


def test_condensing_takes_the_oldest_first_and_says_why_they_failed() -> None:
    entries = run_of(160)
    whole = COUNTER.count(ledger.render(entries))
    closed, _ = ledger.split(entries, whole * 3 // 4, COUNTER)
    assert closed.startswith("a0 to a63 by kind of idea") and "a4<a2 rejected correct" in closed
    assert {e.attempt for e in ledger.parse(closed)} == {f"a{i}" for i in range(64, 160)}
    tight, _ = ledger.split(entries, whole // 12, COUNTER)
    assert "rejected a4" in tight and not ledger.parse(tight)
