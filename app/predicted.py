"""A prediction and what came of it, as pages and terminals say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.reflection import Score


def metric_words(metric: str) -> str:
    """A metric's name; the time's is not its unit, which would read as an amount of it."""
    return "time" if metric == "seconds" else metric


def predicted_words(hypothesis: Mapping[str, object] | None) -> str:
    """`time -20 %`; empty where nothing was predicted."""
    said = hypothesis or {}
    parts = (metric_words(str(said.get("metric") or "")), str(said.get("expected") or ""))
    return " ".join(part for part in parts if part)


def measured_words(score: Score | None) -> str:
    """`-18% against a4, raced`; empty where the metric was not measured of both."""
    if score is None or not score.words:
        return ""
    return f"{score.words} {score.basis}".rstrip()
