"""The tool `search`: one ranking over all that can be looked up: notes, this run's attempts, headers, the user's texts.

Sources are handed in; they rank their own passages as they like, and the passages of all are then ranked again together
with BM25, since scores of different collections can't be compared. Not covered: meaning; words must match.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from tools.records import Record

SATURATION: Final = 1.2
LENGTH: Final = 0.5
"""BM25's k1 and b: how soon repeats stop counting, and how much long passages are marked down."""
TITLE_REPEATS: Final = 2
"""A word in the title counts as so many in the text."""
CANDIDATES: Final = 3
"""Each source is asked for so many times the passages that are wanted in the end."""
MOST_CHARACTERS: Final = 12_000
"""Text of all hits together; later ones are shortened, then dropped."""
LEAST_CHARACTERS: Final = 200
"""A hit is dropped rather than shortened to less."""

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")


class Found(Protocol):
    """A passage as a source gives it: lines `first_line` to `last_line` (from 1, inclusive) of `path`."""

    @property
    def path(self) -> str: ...

    @property
    def first_line(self) -> int: ...

    @property
    def last_line(self) -> int: ...

    @property
    def title(self) -> str: ...

    @property
    def text(self) -> str: ...


class Source(Protocol):
    """Something that can be searched: at most `limit` passages, best first; none when nothing fits."""

    def search(self, query: str, limit: int) -> Sequence[Found]: ...


class Hit(Record):
    """A passage that fits the query, cited by `path` and lines."""

    path: str
    first_line: int
    last_line: int
    title: str
    text: str
    score: float
    """BM25 over the candidates of this query; larger is better."""

    @property
    def cite(self) -> str:
        """As `path:first-last`."""
        return f"{self.path}:{self.first_line}-{self.last_line}"


def search(sources: Sequence[Source], query: str, limit: int = 6) -> list[Hit]:
    """Find passages about `query` (plain words, identifiers or flags; no operators).

    Looks through the optimisation notes, the kernels, reports and profiles of this run's attempts, the compiler's
    headers and `task.h`. Answers with at most `limit` passages, best first, each with the path and lines it came from;
    an empty list when no word occurs anywhere. Use the words of a symptom ("false sharing", "strided access",
    "l1d_miss_rate"), of a technique ("register blocking") or an identifier (`_mm512_fmadd_ps`, `omp_get_num_threads`).
    """
    found = {
        (passage.path, passage.first_line, passage.last_line): passage
        for source in sources
        for passage in source.search(query, CANDIDATES * limit)
    }
    passages = list(found.values())
    ranked = sorted(zip(_scores(query, passages), passages, strict=True), key=lambda pair: -pair[0])
    return _within(ranked[:limit])


def words_of(text: str) -> list[str]:
    """Words to match on, in lower case: identifiers whole and in parts, and without a plural's s."""
    words: list[str] = []
    for word in _WORD.findall(text):
        parts = {_stem(part.lower()) for part in [word, *_PART.findall(word), *word.split("_")] if part}
        words.extend(sorted(parts))
    return words


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _scores(query: str, passages: Sequence[Found]) -> list[float]:
    """BM25 of every passage against the words of `query`, with the candidates as the collection."""
    wanted = set(words_of(query))
    bags = [Counter(words_of(p.text) + words_of(f"{p.path} {p.title}") * TITLE_REPEATS) for p in passages]
    sizes = [sum(bag.values()) for bag in bags]
    mean = sum(sizes) / max(len(sizes), 1) or 1.0
    weight = {
        word: math.log1p((len(bags) - have + 0.5) / (have + 0.5))
        for word in wanted
        if (have := sum(word in bag for bag in bags))
    }
    return [
        sum(
            gain * bag[word] * (SATURATION + 1) / (bag[word] + SATURATION * (1 - LENGTH + LENGTH * size / mean))
            for word, gain in weight.items()
            if word in bag
        )
        for bag, size in zip(bags, sizes, strict=True)
    ]


def _within(ranked: Sequence[tuple[float, Found]]) -> list[Hit]:
    """The passages as hits that fit in `MOST_CHARACTERS`; a shortened one ends with a mark and cites what is left."""
    hits: list[Hit] = []
    left = MOST_CHARACTERS
    for score, passage in ranked:
        text, last = passage.text, passage.last_line
        if len(text) > left:
            if left < LEAST_CHARACTERS:
                break
            kept = text[:left].splitlines()
            text, last = "\n".join([*kept, "…"]), passage.first_line + len(kept) - 1
        left -= len(text)
        hits.append(
            Hit(
                path=passage.path,
                first_line=passage.first_line,
                last_line=last,
                title=passage.title,
                text=text,
                score=score,
            )
        )
    return hits
