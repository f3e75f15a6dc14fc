"""An attempt's outcome as a person reads it. The record's own words stay as they are: `same` is what a race decided."""

from __future__ import annotations

from typing import Final

from memory.movement import race_in

WORDS: Final = {"same": "not told apart"}
"""Where the record's word would say more than is known: two kernels that a race could not tell apart may differ."""
OUTCOMES: Final = tuple(WORDS.get(name, name) for name in ("kept", "same", "slower", "rejected", "unjudged"))
"""All of them, best first."""


def outcome_words(outcome: object) -> str:
    """`kept`, `not told apart`, `slower`, `rejected`, `not judged`…"""
    return WORDS.get(str(outcome), str(outcome))


def outcome_counts(counts: dict[str, int]) -> dict[str, int]:
    """The same of counts by outcome."""
    return {outcome_words(name): count for name, count in counts.items()}


def race_words(note: object) -> str:
    """The race that an attempt's note tells of, `0.38x a2 [0.07, 1.71]`; empty where it had none."""
    race = race_in(str(note or ""))
    return "" if race is None else race.words
