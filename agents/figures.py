"""Figures as a reader wants them."""

from __future__ import annotations

from pydantic import JsonValue


def rounded(value: JsonValue) -> JsonValue:
    """`value` with every float cut to five significant digits: more are noise to a reader and cost tokens."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return value
