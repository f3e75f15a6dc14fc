"""How HTML pages are made: strict templates that escape whatever they are given, with figures in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from app import quantities

TEMPLATES: Final = Path(__file__).parent / "templates"


def rendered(template: str, fields: dict[str, Any], **filters: Callable[..., str]) -> str:
    """The page as text. filters: those of this template alone. Raises jinja2.UndefinedError for a missing field."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        disturbance=quantities.disturbance,
        duration=quantities.duration,
        span=quantities.span,
        percent=quantities.percent,
        times=quantities.times,
        cost=lambda row: quantities.cost(row.dollars, row.unpriced_tokens),
        **filters,
    )
    return environment.get_template(template).render(fields)
