"""Prompts are Markdown templates beside this file. Rendering is strict: an undefined name is an error, not a blank."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

KNOWLEDGE = Path(__file__).parent / "knowledge"
"""The optimisation notes, one Markdown file a topic."""


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def render(name: str, **values: object) -> str:
    """The template `name` (as `planner.md`) with `values`. Raises jinja2.UndefinedError for a name that was not
    given."""
    return _environment().get_template(name).render(**values).strip() + "\n"


def knowledge() -> dict[str, str]:
    """The notes: path as cited (`knowledge/cpu-vectorise.md`) to text."""
    return {f"knowledge/{path.name}": path.read_text(encoding="utf-8") for path in sorted(KNOWLEDGE.glob("*.md"))}
