"""Attempts' outcomes and races as a person reads them. The record's own words stay as they are."""

from __future__ import annotations

from typing import Final

from memory.movement import outcome_words, race_in

OUTCOMES: Final = tuple(outcome_words(name) for name in ("kept", "same", "slower", "rejected", "unjudged"))
"""All of them in words, best first."""


def outcome_counts(counts: dict[str, int]) -> dict[str, int]:
    """Counts by outcome, by its words."""
    return {outcome_words(name): count for name, count in counts.items()}


def race_words(note: object) -> str:
    """The race that an attempt's note tells of, `0.38x a2 [0.07, 1.71]`; empty where it had none."""
    race = race_in(str(note or ""))
    return "" if race is None else race.words
