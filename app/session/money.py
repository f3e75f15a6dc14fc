"""The pane of money and time, as styled lines."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from agents.limits import lets_go_at
from agents.models.spec import is_built_in
from app.bill import Bill
from app.quantities import money, span, tokens
from app.session.lines import brief, folded
from app.session.story import Story
from app.session.words import LABEL, bar, head, labelled

LONGEST_HINT: Final = 200
"""Characters of a hint that are shown."""


def money_lines(story: Story, width: int, elapsed: float) -> list[Text]:
    """What a person waits for or said, what was spent of which budget, and who plays. Most useful first: a pane may
    show the beginning alone."""
    said = _said(story, width)
    return [
        *_given(story, width),
        *_exported(story, width),
        *([head("What you said"), *said] if said else []),
        *_budgets(story, width, elapsed),
        *_asked_before(story, width),
        *_played(story, width),
        *([] if said else folded("You said nothing yet: h gives a hint, x forbids an idea, / asks", width, "dim")),
    ]


def _given(story: Story, width: int) -> list[Text]:
    found = [head("Given, not yet heeded")] if story.given.words else []
    for words in story.given.words[-4:]:
        found += folded(f"- {words}", width, "cyan", indent="  ")
    return found


def _budgets(story: Story, width: int, elapsed: float) -> list[Text]:
    bill, budgets = story.bill, story.budgets
    used = (
        ("iterations", story.iteration, budgets.get("iterations"), lambda v: f"{v:.0f}"),
        ("money", bill.dollars, budgets.get("dollars"), lambda _: _money(bill)),
        ("tokens", bill.tokens, budgets.get("tokens"), lambda v: tokens(int(v))),
        ("time", elapsed, budgets.get("wall_time"), span),
        ("device", story.device_seconds, budgets.get("device_time"), span),
        ("patience", story.stale, budgets.get("patience"), lambda v: f"{v:.0f}"),
    )
    lines = [head("Budgets")]
    for name, spent, limit, say in used:
        if limit:
            most = money(limit) if name == "money" else say(limit)
            lines += labelled(name, f"{bar(spent / limit, 16)} {say(spent)} of {most}", width)
            if name == "time" and story.state == "running" and limit < spent:
                lines += labelled("", _over(limit, spent), width)
    if story.time_left is not None and story.ended is None:
        lines += labelled("left", f"about {span(story.time_left)}", width)
    free = ", ".join(f"{name} {say(spent)}" for name, spent, limit, say in used if not limit)
    return lines + (labelled("no limit", free, width) if free else [])


def _over(wall_time: float, elapsed: float) -> str:
    """What comes of a call that goes on past the time budget; both in seconds."""
    left = lets_go_at(wall_time) - elapsed
    return f"over; a hanging call is let go {f'in {span(left)}' if left >= 1 else 'now'}"


def _money(bill: Bill) -> str:
    """What was paid, as far as prices are known."""
    if not bill.unpriced_tokens:
        return money(bill.dollars)
    return f"{money(bill.dollars)} and what is unknown" if bill.dollars else "unknown"


def _said(story: Story, width: int) -> list[Text]:
    """Hints are cut, so that the budgets are not far below; the log and `H` have the whole of one."""
    wishes, lines = story.wishes, list[Text]()
    for hint in story.hints:
        lines += labelled("hint", brief(hint, LONGEST_HINT), width)
    for idea in wishes.forbidden_in(wishes.hears):
        lines += labelled("forbidden", idea, width)
    if wishes.pinned is not None:
        lines += labelled("pinned", wishes.pinned, width)
    return [*lines, *_answer(story.answers[-1], width)] if story.answers else lines


def _answer(answered: tuple[str, str, str], width: int) -> list[Text]:
    question, answer, by = answered
    return [*labelled("you asked", question, width, "bold"), *labelled(by[: LABEL - 1], answer, width)]


def _asked_before(story: Story, width: int) -> list[Text]:
    """The newest answer stands above."""
    earlier = [line for answered in reversed(story.answers[-5:-1]) for line in _answer(answered, width)]
    return [head("Asked before"), *earlier] if earlier else []


def _exported(story: Story, width: int) -> list[Text]:
    lines = [head("Exported")] if story.exports else []
    for export in reversed(story.exports):
        lines += labelled(export.status or "goes on", export.words, width)
    return lines


def _played(story: Story, width: int) -> list[Text]:
    """Who plays which role now, and who was asked how often, also when another one plays it since."""
    lines = [head("Models")]
    for role, model in story.models.items():
        asked = [(name, count) for (name, played), count in story.calls.items() if played == role]
        calls = ", ".join(f"{_calls(count)}{'' if name == model else f' by {name}'}" for name, count in asked)
        lines += labelled(role, f"{model}  ({calls or _calls(0)})", width)
    return lines + labelled("spent", str(story.bill) or _nothing_spent(story), width)


def _nothing_spent(story: Story) -> str:
    if all(is_built_in(model) for model in story.models.values()):
        return "nothing: the built-in tuner asks no provider"
    return "nothing yet: no provider has answered"


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"
