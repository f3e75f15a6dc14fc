"""The tool `search`: one ranking over all that can be looked up: notes, headers, documents, attempts, lessons.

Sources are handed in; they rank their own passages as they like, and the passages of all are then ranked again together
with BM25, since scores of different collections can't be compared. Not covered: meaning; words must match.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, Protocol, TypeAlias

from tools.records import Record

Place: TypeAlias = Literal["notes", "headers", "documents", "this_run", "other_runs", "lessons", "all"]
"""What can be searched, and all of it."""
SATURATION: Final = 1.2
LENGTH: Final = 0.5
"""BM25's k1 and b: how soon repeats stop counting, and how much long passages are marked down."""
TITLE_REPEATS: Final = 2
"""A word in the title counts as so many in the text."""
OWN_ORDER: Final = 0.5
"""What being first in its source adds to a passage's score; the n-th gets an n-th of it. A source knows how rare a word
is in all it holds, which its candidates alone don't show."""
CANDIDATES: Final = 2
"""Each source is asked for so many times the passages that are wanted in the end."""
MOST_OF_ONE: Final = 4_000
"""Characters of one hit."""
MOST_CHARACTERS: Final = 12_000
"""Text of all hits together. Each may take an equal share of what is left, so that no long one hides those after it."""

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")


class Found(Protocol):
    """A passage as a source gives it: lines `first_line` to `last_line` (from 1, inclusive) of `path`. Without lines
    `path` is no file with lines of its own: a page of a PDF, an attempt, a lesson."""

    @property
    def path(self) -> str: ...

    @property
    def first_line(self) -> int | None: ...

    @property
    def last_line(self) -> int | None: ...

    @property
    def title(self) -> str: ...

    @property
    def text(self) -> str: ...


class Source(Protocol):
    """Something that can be searched: at most `limit` passages, best first; none when nothing fits."""

    def search(self, query: str, limit: int) -> Sequence[Found]: ...


class Hit(Record):
    """A passage that fits the query, cited by `path` and lines, or by `path` alone when it has no lines."""

    path: str
    first_line: int | None
    last_line: int | None
    title: str
    text: str
    score: float
    """BM25 over the candidates of this query; larger is better."""

    @property
    def cite(self) -> str:
        """As `path:first-last`, or `path`."""
        return self.path if self.first_line is None else f"{self.path}:{self.first_line}-{self.last_line}"


def search(sources: Sequence[Source], query: str, limit: int = 6) -> list[Hit]:
    """At most `limit` passages about `query` (plain words, identifiers or flags; no operators), best first.

    Empty when no word occurs anywhere. The text is bounded by `MOST_OF_ONE` and `MOST_CHARACTERS`; a passage that was
    cut cites what is left of it.
    """
    found = {
        (passage.path, passage.first_line, passage.text): (passage, rank)
        for source in sources
        for rank, passage in enumerate(source.search(query, CANDIDATES * limit))
    }
    passages = [passage for passage, _ in found.values()]
    bags = [Counter(words_of(p.text) + words_of(f"{p.path} {p.title}") * TITLE_REPEATS) for p in passages]
    weights = _weights(query, bags)
    ranked = [
        (score * (1 + OWN_ORDER / (1 + rank)), passage)
        for score, (passage, rank) in zip(_scores(weights, bags), found.values(), strict=True)
    ]
    return _within(sorted(ranked, key=lambda pair: -pair[0])[:limit], weights)


def words_of(text: str) -> list[str]:
    """Words to match on, in lower case: identifiers whole and in parts, and without a plural's s."""
    return [part for word in _WORD.findall(text) for part in _parts(word)]


@lru_cache(1 << 16)
def _parts(word: str) -> tuple[str, ...]:
    return tuple(sorted({_stem(part.lower()) for part in [word, *_PART.findall(word), *word.split("_")] if part}))


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _weights(query: str, bags: Sequence[Counter[str]]) -> dict[str, float]:
    """Each word of `query` that occurs, and what finding it is worth: more, the fewer of the candidates have it."""
    return {
        word: math.log1p((len(bags) - have + 0.5) / (have + 0.5))
        for word in set(words_of(query))
        if (have := sum(word in bag for bag in bags))
    }


def _scores(weights: Mapping[str, float], bags: Sequence[Counter[str]]) -> list[float]:
    """BM25 of every passage's words, with the candidates as the collection."""
    sizes = [sum(bag.values()) for bag in bags]
    mean = sum(sizes) / max(len(sizes), 1) or 1.0
    return [
        sum(
            gain * bag[word] * (SATURATION + 1) / (bag[word] + SATURATION * (1 - LENGTH + LENGTH * size / mean))
            for word, gain in weights.items()
            if word in bag
        )
        for bag, size in zip(bags, sizes, strict=True)
    ]


def _within(ranked: Sequence[tuple[float, Found]], weights: Mapping[str, float]) -> list[Hit]:
    """The passages as hits that fit the bounds; a shortened one is marked where it was cut and cites what is left."""
    hits: list[Hit] = []
    left = MOST_CHARACTERS
    for place, (score, passage) in enumerate(ranked):
        text, lines = _cut(passage, min(left // (len(ranked) - place), MOST_OF_ONE), weights)
        left -= len(text)
        hits.append(
            Hit(
                path=passage.path,
                first_line=None if lines is None else lines[0],
                last_line=None if lines is None else lines[1],
                title=passage.title,
                text=text,
                score=score,
            )
        )
    return hits


def _cut(passage: Found, characters: int, weights: Mapping[str, float]) -> tuple[str, tuple[int, int] | None]:
    """The passage's text, cut to so many characters about its most telling word, and the lines that are left of it."""
    lines = None if passage.first_line is None else (passage.first_line, passage.last_line or passage.first_line)
    text = passage.text
    if len(text) <= characters:
        return text, lines
    at = _most_telling(text, weights)
    begin = 0 if at < characters * 3 // 4 else text.rfind("\n", at - characters // 4, at) + 1 or at - characters // 4
    kept = text[begin : begin + characters - 2]
    if lines is not None:
        first = lines[0] + text.count("\n", 0, begin)
        lines = first, first + kept.count("\n")
    return "…" * (begin > 0) + kept + "…" * (begin + len(kept) < len(text)), lines


def _most_telling(text: str, weights: Mapping[str, float]) -> int:
    """Where the word of the greatest weight first stands; 0 when there is none."""
    worth = [
        (max(weights.get(part, 0.0) for part in _parts(found[0])), -found.start()) for found in _WORD.finditer(text)
    ]
    return -max(worth, default=(0.0, 0))[1]
