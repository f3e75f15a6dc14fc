"""A hypothesis in full, as styled lines: below its row in the plan while it waits for a word, and in the verdict's pane
when the cursor is on it."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from app.predicted import predicted_words
from app.session.lines import folded
from app.session.tried import Idea, Mark
from app.session.words import SIGNS, labelled

_STATES: Final[dict[Mark, str]] = {
    "waits": "waits for your word: a approves it, r rejects it, E edits it",
    "tried": "is being tried",
    "dropped": "was dropped",
}


def told_rows(idea: Idea, width: int, is_first: bool) -> list[Text]:
    """Rows of at most `width` cells. is_first: of its plan, which is told once what may be done with it."""
    said = {
        "change": idea.change,
        "why": idea.idea,
        "expects": _expected(idea),
        "from": idea.parent or "nothing",
        "": "a approves the plan, r rejects it, E edits it" if is_first else "",
    }
    return [
        row
        for name, text in said.items()
        if text
        for row in folded(f"{name}: {text}" if name else text, width, "" if name else "cyan", indent="  ")
    ]


def idea_lines(idea: Idea, width: int) -> list[Text]:
    """With what came of it so far."""
    sign, style = SIGNS[idea.mark]
    lines = [Text(row.plain, f"bold {style}".strip()) for row in folded(f"{sign} {_STATES.get(idea.mark, '')}", width)]
    lines += labelled("change", idea.change, width)
    lines += labelled("why", idea.idea, width) if idea.idea else []
    lines += labelled("predicted", _expected(idea), width)
    lines += labelled("from", idea.parent or "nothing", width)
    return [*lines, *labelled("plan", f"of iteration {idea.iteration}", width)]


def _expected(idea: Idea) -> str:
    return predicted_words({"metric": idea.metric, "expected": idea.expected})
