"""The attempt ledger: one line an attempt, all attempts of a run, always in the prompt.

The table is plain text with a fixed header, so that a model, a person and `parse` read the same thing. A line never
changes once its iteration is over, so a longer table begins with the shorter one, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict

from memory.tokens import COUNTER, TokenCounter

Outcome: TypeAlias = Literal["kept", "same", "slower", "rejected", "unjudged"]
"""kept = accepted and faster than the best before it; same, slower = accepted but no better; rejected = failed a stage;
unjudged = the machinery failed and nothing was learnt."""

HEADER = "attempt|parent|idea|change|expected→measured|outcome|ms|of limit|x the best by then, or why not"
"""Without blanks at the bars, which would cost a token in each cell with a number."""
BLOCK = 16
"""Lines that are condensed together. Also how many of the newest lines stand apart, after the kernels: what precedes
them stays the same for so many attempts."""
STEP = 4
"""Blocks by which condensing goes on, so that old lines are rewritten seldom and a provider's cache keeps hitting."""
LINE_TOKENS = 40
"""What a line of `brief_lines` costs on average, at most, in o200k_base. What one saves, later ones may use."""


@dataclass(frozen=True)
class _Lengths:
    """Characters of each cell."""

    idea: int
    change: int
    metric: int
    expected: int
    note: int
    failure: int
    """The note of what was not accepted."""


_FORMS = (
    _Lengths(idea=36, change=400, metric=24, expected=18, note=24, failure=40),
    _Lengths(idea=36, change=72, metric=16, expected=14, note=16, failure=28),
    _Lengths(idea=31, change=40, metric=12, expected=12, note=12, failure=24),
    _Lengths(idea=25, change=32, metric=12, expected=10, note=10, failure=20),
    _Lengths(idea=18, change=16, metric=8, expected=7, note=8, failure=16),
    _Lengths(idea=8, change=8, metric=0, expected=5, note=6, failure=8),
    _Lengths(idea=4, change=0, metric=0, expected=0, note=0, failure=0),
)
"""From the usual one down to what texts that cost far more than words leave room for."""
_LINE = re.compile(
    r"^(?P<attempt>a\d+)\|(?P<parent>a\d+|-)\|(?P<idea>[^|\n]*)\|(?P<change>[^|\n]*)\|(?P<moved>[^|\n]*)"
    r"\|(?P<outcome>\w+)\|(?P<ms>[\d.e+-]*)\|(?:(?P<percent>[\d.e+-]+)%)?\|(?P<note>[^|\n]*)$",
    re.MULTILINE,
)
_EDITED = re.compile(r"^edited (?:[^()]+ \(\+\d+ -\d+\)(?:, |$| ))*")


class LedgerEntry(BaseModel):
    """What the ledger says about one attempt.

    `seconds` and `share_of_limit` are there only when the attempt was accepted (kept, same or slower).
    `change` is the edits and all build settings in words: `edited kernel.cpp (+3 -1) BLOCK=128 UNROLL=4 -O3`.
    `idea` is the hypothesis's change in its author's words, `kind` what sort of idea it is; `expected` and `measured`
    are the movement of `metric`, the last one once the iteration is over.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempt: str
    parent: str | None
    change: str
    outcome: Outcome
    seconds: float | None = None
    share_of_limit: float | None = None
    note: str = ""
    idea: str = ""
    kind: str = "other"
    metric: str = ""
    expected: str = ""
    measured: str = ""


def render(entries: Iterable[LedgerEntry]) -> str:
    """The table: header and one line an entry."""
    return "\n".join([HEADER, *lines(list(entries))])


def lines(entries: Sequence[LedgerEntry], first: int = 0) -> list[str]:
    """One line an entry, from the entry at index `first` on. A parent stands before its children."""
    settings = {entry.attempt: settings_of(entry.change) for entry in entries}
    return [_line(entry, settings.get(entry.parent or "")) for entry in entries[first:]]


def brief_lines(entries: Sequence[LedgerEntry], counter: TokenCounter = COUNTER) -> list[str]:
    """As `lines`, with cells cut where it takes that to stay within `LINE_TOKENS` a line on average.

    A line follows from itself and those before it, so it never changes either.
    """
    settings = {entry.attempt: settings_of(entry.change) for entry in entries}
    left = 0
    made = []
    for entry in entries:
        left += LINE_TOKENS
        for form in _FORMS:
            line = _line(entry, settings.get(entry.parent or ""), form)
            if (taken := counter.count(line + "\n")) <= left:
                break
        left -= taken
        made.append(line)
    return made


def parse(text: str) -> list[LedgerEntry]:
    """The entries of every ledger line in `text`; other lines are passed over.

    Inverse of `render`, but for rounding, for what a line cuts off, for `kind`, and for names and sizes of edits.
    """
    entries: list[LedgerEntry] = []
    settings: dict[str | None, str] = {}
    for found in _LINE.finditer(text):
        ms, percent = found["ms"], found["percent"]
        parent = None if found["parent"] == "-" else found["parent"]
        if found["outcome"] not in get_args(Outcome):
            continue
        change = found["change"].strip()
        if change == "edited":
            change = f"edited {settings.get(parent, '')}".rstrip()
        settings[found["attempt"]] = settings_of(change)
        expected, _, measured = found["moved"].partition("→")
        entries.append(
            LedgerEntry(
                attempt=found["attempt"],
                parent=parent,
                change=change,
                outcome=cast(Outcome, found["outcome"]),
                seconds=float(ms) / 1000 if ms else None,
                share_of_limit=None if percent is None else float(percent) / 100,
                note=found["note"].strip(),
                idea=found["idea"].strip(),
                expected=expected.strip(),
                measured=measured.strip(" ?"),
            )
        )
    return entries


@lru_cache(maxsize=4096)
def settings_of(change: str) -> str:
    """The build settings among the words of a change: `edited kernel.cpp (+3 -1) BLOCK=128 -O3` has `BLOCK=128 -O3`."""
    found = _EDITED.match(change)
    return change[found.end() :].strip() if found else change.strip()


def built_since(change: str, change_of_parent: str) -> str:
    """A change in brief: that it was edited, and those of its settings that its parent has not: `edited BLOCK=128`."""
    had = settings_of(change_of_parent).split()
    words = [word for word in settings_of(change).split() if word not in had]
    gone = [word for word in had if word[:1] == "-" and word not in settings_of(change).split()]
    return " ".join([*(["edited"] if _EDITED.match(change) else []), *words, *(f"without {word}" for word in gone)])


def split(
    entries: Sequence[LedgerEntry], budget: int, counter: TokenCounter, *, whole: bool = False
) -> tuple[str, str]:
    """The table as two texts: all full blocks of lines, which change seldom, and the newest lines after them. Lines are
    brief unless `whole` is asked for.

    The first takes at most `budget` tokens: its oldest blocks are condensed until it does, first to ids, times and
    reasons grouped by kind of idea, then to ids alone. No attempt is ever left out, so at the very least it takes what
    the ids do. Either text is empty when it would have no line.
    """
    closed = len(entries) // BLOCK * BLOCK
    table = lines(entries) if whole else brief_lines(entries)
    text = _condensed(entries[:closed], table[:closed], budget, counter) if closed else ""
    return text, "\n".join(table[closed:])


def smallest(entries: Sequence[LedgerEntry]) -> str:
    """All attempts in the fewest words: their ids by kind of idea and outcome."""
    return _by_idea(entries, brief=True) if entries else ""


def _condensed(entries: Sequence[LedgerEntry], table: Sequence[str], budget: int, counter: TokenCounter) -> str:
    whole = "\n".join([HEADER, *table])
    if counter.count(whole) <= budget:
        return whole
    blocks = -(-len(entries) // BLOCK)
    steps = [min(blocks, step) * BLOCK for step in range(STEP, blocks + STEP, STEP)]
    for brief, grouped in [(0, step) for step in steps] + [(step, len(entries)) for step in steps]:
        parts = [
            _by_idea(entries[:brief], brief=True) if brief else "",
            _by_idea(entries[brief:grouped], brief=False) if brief < grouped else "",
            "\n".join([HEADER, *table[grouped:]]) if grouped < len(entries) else "",
        ]
        text = "\n".join(part for part in parts if part)
        if counter.count(text) <= budget:
            break
    return text


def _by_idea(entries: Sequence[LedgerEntry], *, brief: bool) -> str:
    """Attempts grouped by kind of idea, oldest first; with times and reasons, or in brief by outcome."""
    kinds: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        kinds.setdefault(entry.kind, []).append(entry)
    told = f"{entries[0].attempt} to {entries[-1].attempt} by kind of idea"
    if not brief:
        told += " (attempt<parent, outcome, ms or why not)"
    rows = [f"{kind}: {(_ids(group) if brief else _short(group))}" for kind, group in kinds.items()]
    return "\n".join([told, *rows])


def _ids(group: Sequence[LedgerEntry]) -> str:
    outcomes: dict[str, list[str]] = {}
    for entry in group:
        outcomes.setdefault(entry.outcome, []).append(entry.attempt)
    return "; ".join(f"{outcome} {' '.join(ids)}" for outcome, ids in outcomes.items())


def _short(group: Sequence[LedgerEntry]) -> str:
    words = []
    for entry in group:
        why = f"{entry.seconds * 1000:.3g}" if entry.seconds is not None else _cell(entry.note.split(":")[0], 12)
        words.append(f"{entry.attempt}<{entry.parent or '-'} {entry.outcome} {why}".rstrip())
    return ", ".join(words)


@lru_cache(maxsize=4096)
def _line(entry: LedgerEntry, settings_of_parent: str | None, form: _Lengths = _FORMS[0]) -> str:
    cells = (
        entry.attempt,
        entry.parent or "-",
        _cell(entry.idea, form.idea),
        _cell(_change(entry, settings_of_parent), form.change),
        _moved(entry, form),
        entry.outcome,
        "" if entry.seconds is None else f"{entry.seconds * 1000:.3g}",
        "" if entry.share_of_limit is None else f"{entry.share_of_limit * 100:.2g}%",
        _cell(entry.note, form.failure if entry.seconds is None else form.note),
    )
    return "|".join(cells)


def _change(entry: LedgerEntry, settings_of_parent: str | None) -> str:
    """The change, where an edit that keeps its parent's settings need not repeat them."""
    found = _EDITED.match(entry.change)
    if found is None:
        return entry.change
    settings = settings_of(entry.change)
    return "edited" if settings == (settings_of_parent or "") else f"edited {settings}"


def _moved(entry: LedgerEntry, form: _Lengths) -> str:
    """`-20%→-17%`, with the metric's name when it is not the time."""
    if not entry.expected or not form.expected:
        return ""
    name = "" if entry.metric == "seconds" else _cell(entry.metric, form.metric)
    expected = _cell(entry.expected.replace(" %", "%"), form.expected)
    return f"{name} {expected}→{_cell(entry.measured, form.expected)}".lstrip()


def _cell(text: str, length: int) -> str:
    """On one line, without the table's own separator, cut to `length` characters, at a word's end if one is near."""
    flat = " ".join(text.replace("|", "/").split())
    if len(flat) <= length:
        return flat
    if not length:
        return ""
    cut = flat[: length - 1]
    return (cut[: cut.rfind(" ")] if cut.rfind(" ") > length // 2 else cut).rstrip() + "…"
