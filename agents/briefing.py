"""What each role is told: a pure projection of the run's past into messages that fit its window.

The system message (role, task, machine, contract) is the same for a whole run, byte for byte, so that a provider's
prompt cache hits. Then come the ledger, the kernels in full, recent attempts in detail, and last the question.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from agents import findings
from agents.context import Context
from agents.figures import rounded
from agents.models.base import Message
from agents.settings import Role
from agents.state import Hypothesis
from agents.thread import COUNTER
from memory import ledger
from memory.runs import Attempt
from memory.view import Section, fit, shorten
from prompts.render import render
from tools.contract import parse_tunables
from tools.errors import KernelError
from tools.records import ENTRY_FILE, Kernel

RECENT = 6
"""Attempts that are told in detail."""
SHARE_OF_OPENING = 0.6
"""Of the prompt's budget; the rest is for the turn itself."""
NO_FLAGS = "(none)"


def for_planner(
    context: Context, attempts: Sequence[Attempt], iteration: int, stale: int, budget: int
) -> list[Message]:
    """The opening of a planner's turn. iteration: counted from 1. budget: tokens."""
    best = best_of(context, attempts)
    ask = render(
        "planner_ask.md",
        iteration=iteration,
        iterations=context.settings.budgets.iterations,
        stale=stale,
        best=best,
        parallel=context.settings.parallel,
    )
    kernel = _in_full(context, "Best kernel", best) or _in_full(context, "Starting kernel", next(iter(attempts), None))
    sections = [_ledger(attempts), *kernel, *_recent(context, attempts), Section("ask", ask, keep=9)]
    return _messages(context, "planner", sections, budget)


def for_coder(
    context: Context, attempts: Sequence[Attempt], hypothesis: Hypothesis, parent: str | None, budget: int
) -> list[Message]:
    """The opening of a coder's turn."""
    best = best_of(context, attempts)
    kernels = _in_full(context, "Best kernel", best)
    if parent is not None and (best is None or parent != best.id):
        kernels += _in_full(context, "Parent", context.attempts.find(parent))
    ask = render("coder_ask.md", hypothesis=hypothesis)
    sections = [_ledger(attempts), *kernels, *_recent(context, attempts), Section("ask", ask, keep=9)]
    return _messages(context, "coder", sections, budget)


def for_analyst(
    context: Context, attempts: Sequence[Attempt], new: Sequence[Attempt], iteration: int, budget: int
) -> list[Message]:
    """The opening of an analyst's turn about the attempts `new`, which are the last of `attempts`."""
    best = best_of(context, attempts)
    new_best = best.id if best is not None and best in new else None
    ask = render(
        "analyst_ask.md",
        iteration=iteration,
        attempts=[attempt.id for attempt in new],
        new_best=new_best,
        best=None if best is None else best.id,
    )
    details = [Section(f"attempt {attempt.id}", _detail(context, attempt), keep=5) for attempt in new]
    sections = [*_in_full(context, "Best kernel", best), *details, Section("ask", ask, keep=9)]
    return _messages(context, "analyst", sections, budget)


def best_of(context: Context, attempts: Sequence[Attempt]) -> Attempt | None:
    """The best among `attempts`, as the run folder has it or as it was before later ones came."""
    best = context.attempts.best()
    if best is None or best in attempts:
        return best
    return next((attempt for attempt in reversed(attempts) if attempt.outcome == "kept"), None)


def _messages(context: Context, role: Role, sections: Sequence[Section], budget: int) -> list[Message]:
    system = Message(speaker="system", text=_system(role, context), label=role)
    room = int(budget * SHARE_OF_OPENING) - COUNTER.count(system.text)
    parts = fit(sections, max(room, 2000), COUNTER)
    return [system, *(Message(speaker="user", text=part.text, label=part.label) for part in parts)]


def _system(role: Role, context: Context) -> str:
    return render(
        f"{role}.md",
        task=context.task,
        facts=context.facts,
        hardware=rounded(context.facts.hardware),
        entry_file=ENTRY_FILE[context.settings.language],
    )


def _ledger(attempts: Sequence[Attempt]) -> Section:
    return Section("ledger", ledger.render(attempt.entry for attempt in attempts), keep=9)


def _in_full(context: Context, title: str, attempt: Attempt | None) -> list[Section]:
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
        language="cuda" if kernel.language == "cuda" else "cpp",
        diagnosis=context.run.diagnosis(attempt.id),
    )
    return [Section(title.lower(), text, keep=9)]


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


def _recent(context: Context, attempts: Sequence[Attempt]) -> list[Section]:
    """The last attempts in detail, oldest first; the oldest gives way first, and the ledger still has its line."""
    sections = []
    for age, attempt in enumerate(reversed(attempts[-RECENT:])):
        detail = _detail(context, attempt)
        sections.append(
            Section(f"attempt {attempt.id}", detail, (shorten(detail, 250, COUNTER), ""), keep=RECENT - age)
        )
    return sections[::-1]


def _detail(context: Context, attempt: Attempt) -> str:
    verdict: JsonValue = findings.of_verdict(context.attempts.verdict(attempt.id))
    return render(
        "attempt.md",
        attempt=attempt,
        hypothesis=attempt.hypothesis,
        verdict=json.dumps(rounded(verdict), ensure_ascii=False),
        diagnosis=context.run.diagnosis(attempt.id),
    )
