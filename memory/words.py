"""The searchable words of code and prose, split the way programmers search.

`_mm512_fmadd_pd`, `blockTile` and `-ffast-math` are found whole and by their parts. Not covered: stemming, which the
index leaves to SQLite, and meaning.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

REMEMBERED: Final = 1 << 17
"""Different words whose parts are kept in memory; a hundred thousand passages of CUDA and C++ headers hold about twice
as many, but most of those occur once."""

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_BLANKED = bytes(byte if byte > 127 or chr(byte).isalnum() or byte == ord("_") else 32 for byte in range(256))
"""A byte that can't be part of a word becomes a blank; bytes above 127 are looked at one word at a time."""


def words_of(text: str) -> list[str]:
    """The words of `text` in lower case: every identifier whole, then its parts where it has several."""
    return spaced(text).split()


def spaced(text: str) -> str:
    """`words_of` joined by blanks, as the index takes it."""
    return " ".join(map(_expanded, text.encode(errors="replace").translate(_BLANKED).split()))


@lru_cache(REMEMBERED)
def _expanded(run: bytes) -> str:
    """The words of a run of word characters; a run with characters outside ASCII may hold several, or none."""
    found: list[str] = []
    for word in _WORD.findall(run.decode()):
        whole = word.lower()
        parts = (part.lower() for part in _PART.findall(word))
        found += dict.fromkeys([whole, *parts, *filter(None, whole.split("_"))])
    return " ".join(found)
