"""Event lines as a person reads them in a log: when, where in the run, and what."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from agents.event_line import BOUND
from agents.event_schema import upgraded
from agents.events import Event
from app.claim import told_claim
from app.event_lines import FAULT_WORDS, Fields, attempts_in, bound_words, gain_words, line, number, stop_reason
from app.plain import one_line
from app.quantities import duration, money, percent, span, times, tokens

_HEAD = ("event", "time", "v")
_HELD = ((True, ", its hypothesis held"), (False, ", its hypothesis did not hold"))


@dataclass(frozen=True)
class Wanted:
    """Which lines to show. Empty kinds or roles are all of them; a line without a role is of no role."""

    kinds: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    since: datetime | None = None

    def __contains__(self, told: Mapping[str, JsonValue]) -> bool:
        if self.kinds and told.get("event") not in self.kinds:
            return False
        if self.roles and told.get("role") not in self.roles:
            return False
        when = time_of(told)
        return self.since is None or (when is not None and when >= self.since)


def time_of(told: Mapping[str, JsonValue]) -> datetime | None:
    """When the line was written; None where it does not say so."""
    try:
        when = datetime.fromisoformat(str(told.get("time")))
    except ValueError:
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def log_line(told: Mapping[str, JsonValue]) -> str:
    """A line of `events.jsonl` in local time, on one line, without what a terminal would obey. Never empty, also for
    kinds that a later version made up."""
    told = upgraded(told)
    when = time_of(told)
    stamp = "-" if when is None else f"{when.astimezone():%Y-%m-%d %H:%M:%S}"
    return f"{stamp}  {one_line(_where(told)):<11}  {one_line(_what(told))}"


def _where(told: Fields) -> str:
    """The turn, as `3 coder 1`; the iteration alone outside of turns."""
    if "turn" in told:
        first, *rest = str(told["turn"]).split("-")
        return " ".join([first.lstrip("0") or "0", *rest])
    parts = [str(told[name]) for name in ("iteration", "role") if told.get(name) is not None]
    return " ".join(parts) or "-"


def _what(told: Fields) -> str:
    kind = str(told.get("event"))
    words = _WORDS.get(kind)
    if words is not None:
        return words(told)
    try:
        said = line(Event.model_validate({"event": kind, "fields": told}))
    except ValueError:
        said = ""
    return said or _plainly(kind, told)


def _plainly(kind: str, told: Fields) -> str:
    """Any event, field by field."""
    own = {name: value for name, value in told.items() if name not in (*_HEAD, *BOUND)}
    return " ".join([kind, *(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in own.items())])


def _resumed(f: Fields) -> str:
    changes = f.get("changes")
    told = (
        "".join(f"; {name}: {json.dumps(change)}" for name, change in changes.items())
        if isinstance(changes, dict)
        else ""
    )
    return f"another process goes on with the run, after {attempts_in(f)}{told}"


def _hypothesis(f: Fields) -> str:
    return f"to try, from {f.get('parent') or 'nothing'}: {f.get('change')} ({f.get('metric')} {f.get('expected')})"


def _best(f: Fields) -> str:
    return ", ".join(
        part
        for part in (
            f"{f.get('attempt')} is the best: {duration(number(f, 'seconds'))}",
            f"{percent(number(f, 'share_of_limit'))} of limit",
            f"{times(number(f, 'speedup'))} against the baseline",
            gain_words(f),
        )
        if part
    )


def _diagnosed(f: Fields) -> str:
    held = next((words for value, words in _HELD if f.get("hypothesis_held") is value), "")
    return f"{bound_words(f)}{held}: {f.get('summary')}"


def _called(f: Fields) -> str:
    read, wrote = (tokens(int(number(f, name) or 0)) for name in ("input_tokens", "output_tokens"))
    dollars = number(f, "dollars")
    cost = f", {money(dollars)}" if dollars else ""
    used = f" ({read} tokens in, {wrote} out{cost})" if number(f, "input_tokens") else ""
    return f"{f.get('model')} answered in {_took(f)}{used}"


def _failed(f: Fields) -> str:
    fault = str(f.get("fault"))
    return f"{f.get('model')} {FAULT_WORDS.get(fault, fault)} ({f.get('message')})"


def _tool(f: Fields) -> str:
    said = one_line(str(f.get("message") or ""))
    came_to = "" if f.get("ok") else f": {str(f.get('error')).replace('_', ' ')}{': ' + said if said else ''}"
    return f"{f.get('tool')} took {_took(f)}{came_to}"


def _took(f: Fields) -> str:
    seconds = number(f, "seconds")
    return span(seconds) if seconds is None or seconds >= 10 else duration(seconds)


def _ended(f: Fields) -> str:
    best, reached, last = f.get("best"), "", f.get("last")
    figures, where = (last, "measured afresh") if isinstance(last, dict) else (f, "as judged in the search")
    if best is not None:
        fast = f"{duration(number(figures, 'seconds'))}, {times(number(figures, 'speedup'))} against the baseline"
        reached = f"; best {best}, {fast}, {where}{_against_start(last)}"
    return f"the run ended: {stop_reason(f)}; {attempts_in(f)}, {f.get('kept')} kept{reached}"


def _against_start(last: JsonValue) -> str:
    """What may be claimed, where the best was raced against the starting kernel at the end."""
    claim = told_claim(last)
    return "" if claim is None else f"; {claim.sentence}"


_WORDS: dict[str, Callable[[Fields], str]] = {
    "run_started": lambda f: f"a process works on the run: {f.get('run')}, task {f.get('task')}",
    "run_resumed": _resumed,
    "iteration_started": lambda f: f"iteration {f.get('iteration')} of {f.get('iterations')} begins",
    "hypothesis": _hypothesis,
    "best_changed": _best,
    "profiled": lambda f: f"{bound_words(f)}, as profiled",
    "diagnosed": _diagnosed,
    "turn_started": lambda f: f"{f.get('role')}: {f.get('model')} is asked",
    "model_called": _called,
    "model_failed": _failed,
    "tool_called": _tool,
    "lesson": lambda f: f"lesson {f.get('lesson')}: {f.get('claim')} ({str(f.get('says')).replace('_', ' ')})",
    "lessons_failed": lambda f: f"lessons: {f.get('message')}",
    "run_ended": _ended,
}
"""For kinds of which a run's live progress has no line, or another."""
