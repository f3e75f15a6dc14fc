"""A source for `search`: texts that are read only when asked, as the compiler's own headers and the task's `task.h`.

A passage is a declaration: the lines between two blank ones. Nothing is indexed; a query looks at every declaration.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tools.process import run_command
from tools.records import Record
from tools.toolchain import find_compiler

PATTERNS: Final = ("*intrin.h", "omp.h", "arm_*.h", "stdint*.h", "float.h")
"""Of the compiler's include folder: intrinsics, OpenMP, and the limits of the standard types."""
MOST_LINES: Final = 40
"""A longer declaration is cut into pieces of so many lines."""
LEAST_WORD: Final = 3


class Excerpt(Record):
    """Lines `first_line` to `last_line` (from 1, inclusive) of `path`."""

    path: str
    first_line: int
    last_line: int
    title: str
    text: str


class Texts:
    """Searchable texts by name; a path is read at the first search, and skipped when it can't be."""

    def __init__(self, texts: Mapping[str, str | Path]) -> None:
        self._texts = dict(texts)

    def search(self, query: str, limit: int) -> list[Excerpt]:
        """The declarations that hold most of the query's words, rare words counting more; short ones first."""
        words = [word for word in dict.fromkeys(query.lower().split()) if len(word) >= LEAST_WORD]
        matches: dict[int, list[str]] = {}
        frequency = dict.fromkeys(words, 0)
        for number, (_, lower) in enumerate(self._declarations):
            for word in words:
                if word in lower:
                    matches.setdefault(number, []).append(word)
                    frequency[word] += 1

        def rank(number: int) -> tuple[float, int]:
            return -sum(1 / frequency[word] for word in matches[number]), len(self._declarations[number][1])

        return [self._declarations[number][0] for number in sorted(matches, key=rank)[:limit]]

    @functools.cached_property
    def _declarations(self) -> list[tuple[Excerpt, str]]:
        """Every declaration, with its text in lower case."""
        return [(each, each.text.lower()) for name, text in self._texts.items() for each in _split(name, _read(text))]


def toolchain_headers() -> Texts:
    """The headers of the C++ compiler found here. InfrastructureError when there is none."""
    compiler = str(find_compiler().path)
    answer = run_command([compiler, "-print-file-name=include"], timeout=10)
    folder = Path(answer.stdout.strip())
    paths = {path for pattern in PATTERNS for path in folder.glob(pattern)} if folder.is_absolute() else set()
    return Texts({str(path): path for path in sorted(paths)})


def _read(text: str | Path) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.read_text(errors="replace")
    except OSError:
        return ""


def _split(name: str, text: str) -> Iterator[Excerpt]:
    lines = text.splitlines()
    start = 0
    for number in range(1, len(lines) + 1):
        if number == len(lines) or not lines[number].strip() or number - start >= MOST_LINES:
            body = "\n".join(lines[start:number]).strip("\n")
            first = start + 1 + next((i for i, line in enumerate(lines[start:number]) if line.strip()), 0)
            if body.strip():
                yield Excerpt(path=name, first_line=first, last_line=number, title=Path(name).name, text=body)
            start = number
