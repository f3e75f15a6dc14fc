"""The attempt ledger: one line an attempt, all attempts of a run, always in the prompt.

The table is plain text with a fixed header, so that a model, a person and `parse` read the same thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict

Outcome: TypeAlias = Literal["kept", "same", "slower", "rejected", "unjudged"]
"""kept = accepted and faster than the best before it; same, slower = accepted but no better; rejected = failed a stage;
unjudged = the machinery failed and nothing was learnt."""

HEADER = "attempt | parent | change | outcome | time | of limit | note"
_RULE = "--- | --- | --- | --- | --- | --- | ---"
_NOTE_LENGTH = 100
_CHANGE_LENGTH = 120
_LINE = re.compile(
    r"^(?P<attempt>a\d+) \| (?P<parent>a\d+|-) \| (?P<change>[^|]*) \| (?P<outcome>\w+) "
    r"\| (?:(?P<ms>[\d.e+-]+) ms|-) \| (?:(?P<percent>[\d.e+-]+)%|-) \|(?P<note>[^|]*)$",
    re.MULTILINE,
)


class LedgerEntry(BaseModel):
    """What the ledger says about one attempt.

    `seconds` and `share_of_limit` are there only when the attempt was accepted (kept, same or slower).
    `change` is the build settings and edits in words: `BLOCK=128 UNROLL=4 -O3`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempt: str
    parent: str | None
    change: str
    outcome: Outcome
    seconds: float | None = None
    share_of_limit: float | None = None
    note: str = ""


def render(entries: Iterable[LedgerEntry]) -> str:
    """The table: header, rule and one line an entry."""
    return "\n".join([HEADER, _RULE, *(_line(entry) for entry in entries)])


def parse(text: str) -> list[LedgerEntry]:
    """The entries of every ledger line in `text`; other lines are passed over.

    Inverse of `render`, but for rounding and for what a line cuts off.
    """
    entries = []
    for found in _LINE.finditer(text):
        ms, percent, parent = found["ms"], found["percent"], found["parent"]
        if found["outcome"] not in get_args(Outcome):
            continue
        entries.append(
            LedgerEntry(
                attempt=found["attempt"],
                parent=None if parent == "-" else parent,
                change=found["change"].strip(),
                outcome=cast(Outcome, found["outcome"]),
                seconds=None if ms is None else float(ms) / 1000,
                share_of_limit=None if percent is None else float(percent) / 100,
                note=found["note"].strip(),
            )
        )
    return entries


def _line(entry: LedgerEntry) -> str:
    time = "-" if entry.seconds is None else f"{entry.seconds * 1000:.4g} ms"
    share = "-" if entry.share_of_limit is None else f"{entry.share_of_limit * 100:.3g}%"
    cells = (
        entry.attempt,
        entry.parent or "-",
        _cell(entry.change, _CHANGE_LENGTH) or "-",
        entry.outcome,
        time,
        share,
        _cell(entry.note, _NOTE_LENGTH),
    )
    return " | ".join(cells).rstrip()


def _cell(text: str, length: int) -> str:
    """On one line, without the table's own separator, cut to `length` characters."""
    flat = " ".join(text.replace("|", "/").split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"
