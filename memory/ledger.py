"""The attempt ledger: one line an attempt, all attempts of a run, always in the prompt.

The table is plain text with a fixed header, so that a model, a person and `parse` read the same thing. A line never
changes once its iteration is over, so a longer table begins with the shorter one, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict

from memory.tokens import TokenCounter

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
_LENGTHS = {"idea": 36, "change": 400, "metric": 24, "expected": 18, "note": 24, "note of a failure": 40}
"""Characters of a cell. Settings are never cut in practice: a tuner reads them back."""
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


def split(entries: Sequence[LedgerEntry], budget: int, counter: TokenCounter) -> tuple[str, str]:
    """The table as two texts: all full blocks of lines, which change seldom, and the newest lines after them.

    The first takes at most `budget` tokens: its oldest blocks are condensed until it does, first to ids, times and
    reasons grouped by kind of idea, then to ids alone. No attempt is ever left out, so at the very least it takes what
    the ids do. Either text is empty when it would have no line.
    """
    closed = len(entries) // BLOCK * BLOCK
    newest = "\n".join(lines(entries, closed))
    return (_condensed(entries[:closed], budget, counter) if closed else ""), newest


def smallest(entries: Sequence[LedgerEntry]) -> str:
    """All attempts in the fewest words: their ids by kind of idea and outcome."""
    return _by_idea(entries, brief=True) if entries else ""


def _condensed(entries: Sequence[LedgerEntry], budget: int, counter: TokenCounter) -> str:
    table = lines(entries)
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
def _line(entry: LedgerEntry, settings_of_parent: str | None) -> str:
    failed = entry.seconds is None
    cells = (
        entry.attempt,
        entry.parent or "-",
        _cell(entry.idea, _LENGTHS["idea"]),
        _cell(_change(entry, settings_of_parent), _LENGTHS["change"]),
        _moved(entry),
        entry.outcome,
        "" if entry.seconds is None else f"{entry.seconds * 1000:.3g}",
        "" if entry.share_of_limit is None else f"{entry.share_of_limit * 100:.2g}%",
        _cell(entry.note, _LENGTHS["note of a failure" if failed else "note"]),
    )
    return "|".join(cells)


def _change(entry: LedgerEntry, settings_of_parent: str | None) -> str:
    """The change, where an edit that keeps its parent's settings need not repeat them."""
    found = _EDITED.match(entry.change)
    if found is None:
        return entry.change
    settings = settings_of(entry.change)
    return "edited" if settings == (settings_of_parent or "") else f"edited {settings}"


def _moved(entry: LedgerEntry) -> str:
    """`-20%→-17%`, with the metric's name when it is not the time."""
    if not entry.expected:
        return ""
    name = "" if entry.metric == "seconds" else _cell(entry.metric, _LENGTHS["metric"]) + " "
    expected = _cell(entry.expected.replace(" %", "%"), _LENGTHS["expected"])
    return f"{name}{expected}→{_cell(entry.measured, _LENGTHS['expected'])}"


def _cell(text: str, length: int) -> str:
    """On one line, without the table's own separator, cut to `length` characters, at a word's end if one is near."""
    flat = " ".join(text.replace("|", "/").split())
    if len(flat) <= length:
        return flat
    cut = flat[: length - 1]
    return (cut[: cut.rfind(" ")] if cut.rfind(" ") > length // 2 else cut).rstrip() + "…"
