"""How HTML pages are made: strict templates that escape whatever they are given, with figures in words."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app import quantities
from app.plain import printable
from app.predicted import measured_words, predicted_words
from memory.movement import outcome_words

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES: Final = Path(__file__).parent / "templates"
STATIC: Final = Path(__file__).parent / "static"


def rendered(template: str, fields: Mapping[str, Any], styles: Sequence[str] = ("page.css",)) -> str:
    """The page as text. `styles` are files of `STATIC`, put into the page where its template asks for `css`; its policy
    then names their hash (`style_source`). Raises jinja2.UndefinedError for a missing field."""
    css = style_text(tuple(styles))
    return _environment().get_template(template).render({"css": css, "style_source": style_source(css), **fields})


@cache
def style_text(names: tuple[str, ...]) -> str:
    """The text of these style sheets, one after the other."""
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)


def style_source(css: str) -> str:
    """What a content security policy allows this very text by, as `'sha256-…'` (CSP level 3, section 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters.update(
        amount=quantities.amount,
        count=quantities.count,
        disturbance=quantities.disturbance,
        duration=quantities.duration,
        figure=quantities.figure,
        money=quantities.money,
        outcome=outcome_words,
        span=quantities.span,
        throttling=quantities.throttling,
        percent=quantities.percent,
        predicted=predicted_words,
        measured=measured_words,
        times=quantities.times,
        tokens=quantities.tokens,
        cost=lambda row: quantities.cost(row.dollars, row.unpriced_tokens),
        and_unpriced=quantities.cost,
    )
    return environment


def _shown(value: Any) -> Any:
    """Text without control characters and marks that turn the direction of writing: neither an escape sequence nor a
    word order that hides something gets into a page."""
    return printable(value) if type(value) is str else value
