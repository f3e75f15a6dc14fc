from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory import ledger
from memory.ledger import LedgerEntry

WORDS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=300)
ENTRIES = st.builds(
    LedgerEntry,
    attempt=st.integers(0, 500).map("a{}".format),
    parent=st.none() | st.integers(0, 500).map("a{}".format),
    change=WORDS,
    outcome=st.sampled_from(["kept", "same", "slower", "rejected", "unjudged"]),
    seconds=st.none() | st.floats(1e-7, 1e3),
    share_of_limit=st.none() | st.floats(1e-7, 1e4),
    note=WORDS,
)


def test_a_line_reads_as_the_header_says() -> None:
    entry = LedgerEntry(
        attempt="a17",
        parent="a3",
        change="BLOCK=128 -O3",
        outcome="kept",
        seconds=0.001234,
        share_of_limit=0.41,
        note="1.2x a3",
    )
    assert ledger.render([entry]).splitlines() == [
        "attempt | parent | change | outcome | time | of limit | note",
        "--- | --- | --- | --- | --- | --- | ---",
        "a17 | a3 | BLOCK=128 -O3 | kept | 1.234 ms | 41% | 1.2x a3",
    ]


@given(st.lists(ENTRIES, max_size=6))
def test_every_entry_is_one_line_that_can_be_read_back(entries: list[LedgerEntry]) -> None:
    text = ledger.render(entries)
    read = ledger.parse("Prose before.\n" + text + "\nProse after | with a bar.")
    assert len(text.split("\n")) == 2 + len(entries)
    assert [(e.attempt, e.parent, e.outcome) for e in read] == [(e.attempt, e.parent, e.outcome) for e in entries]
    for was, now in zip(entries, read, strict=True):
        assert (was.seconds is None) == (now.seconds is None)
        if was.seconds is not None and now.seconds is not None:
            assert abs(now.seconds / was.seconds - 1) < 1e-3
