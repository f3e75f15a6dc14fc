"""The parts of a prompt, each with what may stand in its place when room is short.

What a section's `keep` says, lowest first: recent attempts give way, then the track record, the lessons, the ledger's
words (never its attempts); the hints and the details of what is asked about are cut next, the best kernel last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from agents import findings
from agents.context import Context
from agents.figures import rounded
from agents.past import Past
from agents.reflection import HitRate
from agents.settings import Role
from memory import ledger as table
from memory.runs import Attempt
from memory.tokens import TokenCounter
from memory.view import Section, clip
from prompts.render import render
from tools.errors import KernelError
from tools.records import ENTRY_FILE, Kernel
from tools.tunables import parse_tunables

RECENT = 6
"""Attempts that are told in detail."""
DETAIL = 3_200
"""Characters of one of them; `show` has the whole."""
BRIEF = 600
"""Characters of one of them when room is short."""
SHARE_OF_LEDGER = 0.25
"""Of the prompt's budget, before old lines are grouped by idea."""
HINT = 2_000
"""Characters that each of the user's hints has when room is short."""
NO_FLAGS = "(none)"


def system(role: Role, context: Context) -> str:
    """Role, task, machine and contract: the same for a whole run."""
    return render(
        f"{role}.md",
        task=context.task,
        facts=context.facts,
        hardware=rounded(context.facts.hardware),
        entry_file=ENTRY_FILE[context.settings.language],
    )


def lessons(text: str) -> Section:
    """What earlier runs learnt, as `memory.lessons.render` has it."""
    few = "\n".join(text.splitlines()[:5])
    return Section("lessons", text, (few, "") if text else (), keep=21)


def hints(past: Past) -> Section:
    """What the user told the agents; it stays to the end of the run."""
    said = past.hints()
    text = render("hints.md", hints=said) if said else ""
    short = render("hints.md", hints=[clip(hint, HINT, 0) for hint in said]) if said else ""
    return Section("hints", text, (short,) if text else (), keep=23, may_be_cut=True)


def ledger(past: Past, budget: int, counter: TokenCounter, *, whole: bool) -> tuple[Section, Section]:
    """All attempts in two sections: full blocks of lines, which change seldom, and the newest lines. whole: settings
    are never cut, since a tuner reads them back."""
    entries = past.entries()
    closed, newest = table.split(entries, budget, counter, whole=whole)
    count = len(entries) // table.BLOCK * table.BLOCK
    return (
        Section("ledger", closed, (lambda: table.smallest(entries[:count]),) if closed else (), keep=22),
        Section(
            "newest attempts",
            f"{table.HEADER}\n{newest}" if newest else "",
            (lambda: table.smallest(entries[count:]),) if newest else (),
            keep=22,
        ),
    )


def in_full(context: Context, past: Past, title: str, attempt: Attempt | None) -> list[Section]:
    """An attempt's kernel with all its source, what may be tuned, and what bounds it."""
    if attempt is None:
        return []
    kernel = Kernel.model_validate(attempt.kernel)
    text = render(
        "kernel.md",
        title=title,
        attempt=attempt,
        settings=" ".join([*(f"{n}={v}" for n, v in kernel.defines.items()), *kernel.flags]),
        tunables=_tunables(kernel),
        flag_groups=_flag_groups(kernel, context),
        files=sorted(kernel.files.items()),
        language={"torch": "python"}.get(kernel.language, kernel.language),
        diagnosis=past.diagnosis(attempt),
    )
    return [Section(title.lower(), text, keep=31 if title == "Parent" else 32, may_be_cut=True)]


def recent(context: Context, past: Past) -> list[Section]:
    """The last attempts in detail, oldest first; the oldest gives way first, and the ledger still has its line."""
    found = []
    for place, attempt in enumerate(past.attempts[-RECENT:]):
        text = _detail(context, past, attempt)
        shorter = (clip(text, BRIEF, 0), "")
        found.append(Section(f"attempt {attempt.id}", clip(text, DETAIL * 3 // 4, DETAIL // 4), shorter, keep=place))
    return found


def detail(context: Context, past: Past, attempt: Attempt) -> Section:
    """An attempt that the turn is about."""
    return Section(f"attempt {attempt.id}", _detail(context, past, attempt), keep=24, may_be_cut=True)


def track_record(rates: Sequence[HitRate]) -> Section:
    """How often hypotheses of each kind came true."""
    text = render("track_record.md", rates=rates) if rates else ""
    return Section("track record", text, ("",) if text else (), keep=20)


def _detail(context: Context, past: Past, attempt: Attempt) -> str:
    verdict: JsonValue = findings.of_verdict(context.attempts.verdict(attempt.id))
    score = past.scores.get(attempt.id)
    return render(
        "attempt.md",
        attempt=attempt,
        hypothesis=attempt.hypothesis,
        score=score,
        verdict=json.dumps(rounded(verdict), ensure_ascii=False),
        diagnosis=past.diagnosis(attempt),
    )


def _tunables(kernel: Kernel) -> list[tuple[str, tuple[str, ...], str]]:
    """Name, values, value in force. A kernel whose declarations are malformed has none."""
    try:
        declared = parse_tunables(kernel.files)
    except KernelError:
        return []
    return [(name, values, kernel.defines.get(name, values[0])) for name, values in declared.items()]


def _flag_groups(kernel: Kernel, context: Context) -> list[tuple[list[str], str]]:
    groups = []
    for group in context.flag_groups:
        now = max((a for a in group if set(a) <= set(kernel.flags)), key=len, default=())
        groups.append(([" ".join(alternative) or NO_FLAGS for alternative in group], " ".join(now) or NO_FLAGS))
    return groups
