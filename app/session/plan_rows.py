"""Rows of the plan: a hypothesis, an attempt that something was tried from, and what was tried."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from app.predicted import metric_words
from app.quantities import duration, percent
from app.session.lines import brief, clean
from app.session.story import Story
from app.session.tried import Idea, Tried
from app.session.words import SIGNS, moved, what

SHORT: Final = 10
"""Characters of a prediction that has room beside what was measured; the verdict has all of it."""
NARROW: Final = 60
"""Cells below which a line has no room for more than a time, how it moved and an idea."""


def idea_row(idea: Idea) -> Text:
    sign, colour = SIGNS[idea.mark]
    predicted = f"  ({metric_words(idea.metric)} {idea.expected})"
    return Text.assemble((f"{sign} ", colour), brief(idea.change, 120), (predicted, "dim"))


def parent_row(tried: Tried, story: Story) -> Text:
    """Of what something was tried from."""
    sign, colour = SIGNS[tried.outcome]
    time = "" if tried.seconds is None else f"  {duration(tried.seconds)}  {percent(tried.share)} of limit"
    return Text.assemble((f"from {tried.id}", "bold"), (f"  {sign}", colour), time, _flags(tried, story))


def attempt_row(tried: Tried, story: Story) -> Text:
    sign, colour = SIGNS[tried.outcome]
    change = moved(tried, story)
    said = clean(tried.idea.expected, 40) if tried.idea is not None else ""
    came = f"{change.words:>9}" if change is not None else " " * 9
    came += f" of {said}" if change is not None and 0 < len(said) <= SHORT else ""
    return Text.assemble(
        (f"{sign} {tried.id:<4}", colour),
        f"{_time(tried):>10}",
        (came, "bold"),
        _flags(tried, story),
        f"  {brief(what(tried, story), 160)}",
    )


def brief_row(tried: Tried, story: Story) -> Text:
    """The same where there is little room: its author's words rather than what was built, and no prediction; the
    verdict has both."""
    sign, colour = SIGNS[tried.outcome]
    change = moved(tried, story)
    said = f"you: {tried.person}" if tried.person else tried.idea.change if tried.idea is not None else ""
    return Text.assemble(
        (f"{sign} {tried.id:<3}", colour),
        f" {_time(tried):>8}",
        (f" {change.words:>6}" if change is not None else "", "bold"),
        _flags(tried, story),
        f" {brief(said or what(tried, story), 160)}",
    )


def _time(tried: Tried) -> str:
    return tried.outcome if tried.seconds is None else duration(tried.seconds)


def _flags(tried: Tried, story: Story) -> tuple[str, str]:
    flags = ["BEST"] if tried.id == story.best else []
    flags += ["PINNED"] if tried.id == story.wishes.pinned else []
    return ("".join(f" {flag}" for flag in flags), "bold green")
