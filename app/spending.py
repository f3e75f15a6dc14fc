"""What a run's models did and what that cost, read back from its events: by role and model, by iteration, in sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from agents.models.costs import LedgerRow, ledger_of
from agents.settings import ROLES
from app.event_lines import CASE_WORDS, FAULT_WORDS
from app.plain import one_line
from memory.runs import RunFolder

_SUMMED = (
    "calls",
    "failed",
    "retries",
    "corrections",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "unpriced_tokens",
)
_ORDER: dict[str, int] = {role: place for place, role in enumerate(ROLES)}


class ModelRow(BaseModel):
    """One model in one role. `failed` calls gave no reply; each was made again, or was the last of its model.

    `dollars` is None while no price is known, and lacks the `unpriced_tokens`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: str
    model: str
    calls: int
    failed: int
    retries: int
    corrections: int
    """Replies that could not be used and were answered so."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    unpriced_tokens: int
    dollars: float | None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def cached_share(self) -> float | None:
        """Of the prompts' tokens, those that the provider read from its cache."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else None


class Change(BaseModel):
    """From here on another model played the role."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    iteration: int
    role: str
    before: str
    after: str
    why: str
    """In words: `declined to answer`."""
    message: str


class Round(BaseModel):
    """One iteration's cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    iteration: int
    dollars: float
    tokens: int
    unpriced_tokens: int


class Spending(BaseModel):
    """All of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[ModelRow, ...] = ()
    changes: tuple[Change, ...] = ()
    rounds: tuple[Round, ...] = ()
    corrections: dict[str, int] = {}
    """Replies that could not be used, by what was wrong with them, in words."""

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)

    @property
    def total(self) -> ModelRow:
        """The sum of all rows; its dollars are None only when no price at all was known."""
        priced = [row.dollars for row in self.rows if row.dollars is not None and row.tokens]
        return _added(("", ""), self.rows, dollars=sum(priced) if priced or not self.tokens else None)


def spending_of(run: RunFolder) -> Spending:
    """Read a run's events. Raises RunFolderError when they can't be read."""
    events = run.events()
    entries = ledger_of(events)
    retries: Counter[tuple[str, str]] = Counter()
    corrections: Counter[tuple[str, str]] = Counter()
    cases: Counter[str] = Counter()
    changes: list[Change] = []
    for event in events:
        who = (str(event.get("role")), str(event.get("model")))
        if event["event"] == "model_retried":
            retries[who] += 1
        elif event["event"] == "model_corrected":
            corrections[who] += 1
            case = str(event.get("case"))
            cases[CASE_WORDS.get(case, case)] += 1
        elif event["event"] == "model_changed":
            changes.append(_change(event))
    by_model: dict[tuple[str, str], list[LedgerRow]] = {}
    by_round: dict[int, list[LedgerRow]] = {}
    for entry in entries:
        by_model.setdefault((entry.role, entry.model), []).append(entry)
        by_round.setdefault(entry.iteration, []).append(entry)
    rows = [
        _added(who, found, dollars=_dollars(found), retries=retries[who], corrections=corrections[who])
        for who, found in by_model.items()
    ]
    return Spending(
        rows=tuple(sorted(rows, key=lambda row: _ORDER.get(row.role, len(_ORDER)))),
        changes=tuple(changes),
        rounds=tuple(_round(number, found) for number, found in sorted(by_round.items())),
        corrections=dict(cases),
    )


def _change(event: Mapping[str, object]) -> Change:
    why = str(event.get("why"))
    return Change(
        iteration=int(str(event.get("iteration", 0))),
        role=str(event.get("role")),
        before=str(event.get("before")),
        after=str(event.get("after")),
        why=FAULT_WORDS.get(why, why),
        message=one_line(str(event.get("message") or "")),
    )


def _dollars(entries: Iterable[LedgerRow]) -> float | None:
    """None when no price at all was known; calls that failed without a token were not free, they were none."""
    used = [entry for entry in entries if entry.input_tokens + entry.output_tokens]
    known = [entry.dollars for entry in used if entry.dollars is not None]
    return sum(known) if known or not used else None


def _added(who: tuple[str, str], entries: Sequence[LedgerRow] | Sequence[ModelRow], **given: float | None) -> ModelRow:
    """The sum of several rows under one role and model; `given` are the fields that are no sums of theirs."""
    sums = {name: sum(getattr(entry, name, 0) for entry in entries) for name in _SUMMED}
    return ModelRow.model_validate({"role": who[0], "model": who[1]} | sums | given)


def _round(number: int, entries: Sequence[LedgerRow]) -> Round:
    return Round(
        iteration=number,
        dollars=sum(entry.dollars or 0.0 for entry in entries),
        tokens=sum(entry.input_tokens + entry.output_tokens for entry in entries),
        unpriced_tokens=sum(entry.unpriced_tokens for entry in entries),
    )
