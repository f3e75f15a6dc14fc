"""Texts cut into passages that a search can hand out: whole lines, of bounded length, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CHUNK_LINES: Final = 40
"""A passage never has more lines."""
BREAK_AFTER: Final = 10
"""A passage of at least so many lines ends at the next blank line."""
CHUNK_CHARACTERS: Final = 4000
"""A passage never has more characters; a longer line becomes several passages of that line."""
TITLE_CHARACTERS: Final = 160

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that turn the direction of text, and halves of pairs: nothing that a hit may carry."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text to be found. `path` is what a hit cites; adding a document again replaces the one of the same path."""

    path: str
    text: str
    title: str = ""
    numbered: bool = True
    """Whether the lines of `text` are those of the file at `path`. A hit of any other (a page of a PDF, an attempt in
    words) cites the path alone."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines `first` to `last` of a document, from 1 and inclusive."""

    first: int
    last: int
    title: str
    body: str


def clean(text: str) -> str:
    """`text` without control characters; line ends of any kind are line feeds."""
    return _UNPRINTABLE.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))


def passages_of(document: Document) -> Iterator[Passage]:
    """Cut a document. A short one stays whole; a long one is cut at Markdown headings, else at blank lines, else by
    length."""
    lines = clean(document.text).removesuffix("\n").split("\n")
    markdown = document.path.endswith((".md", ".markdown"))
    title = document.title or next((_heading(line) for line in lines if markdown and line.startswith("#")), "")
    section, start, size = title, 0, 0
    for number, line in enumerate(lines, 1):
        size += len(line) + 1
        if number < len(lines) and not _ends(lines, start, number, size, markdown):
            continue
        if markdown and lines[start].startswith("#") and _heading(lines[start]) != title:
            section = f"{title} — {_heading(lines[start])}"
        body = "\n".join(lines[start:number])
        if body.strip():
            for piece in _pieces(body):
                yield Passage(start + 1, number, clean(section)[:TITLE_CHARACTERS], piece)
        start, size = number, 0


def _ends(lines: list[str], start: int, number: int, size: int, markdown: bool) -> bool:
    """Whether a passage of `size` characters that began at index `start` ends before the line at index `number`."""
    if size + len(lines[number]) > CHUNK_CHARACTERS:
        return True
    if len(lines) <= CHUNK_LINES:
        return False
    if number - start >= CHUNK_LINES or (markdown and lines[number].startswith("#")):
        return True
    return number - start >= BREAK_AFTER and not lines[number].strip()


def _pieces(body: str) -> Iterator[str]:
    """`body`, which is longer than a passage may be only when it is a single line, in pieces that overlap by a word's
    length so that none is cut in two for good."""
    step = CHUNK_CHARACTERS - 100
    for start in range(0, max(1, len(body) - 100), step):
        yield body[start : start + CHUNK_CHARACTERS]


def _heading(line: str) -> str:
    return line.lstrip("# ").strip()
