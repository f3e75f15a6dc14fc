"""A kernel as lines: its source with hot lines marked, or what it changed against another one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from rich.text import Text

from app.quantities import percent
from app.session.archive import Filed
from app.session.lines import clean
from tools.profiles import Profile
from tools.records import Kernel

View: TypeAlias = Literal["source", "parent", "best"]
VIEWS: Final[tuple[View, ...]] = ("source", "parent", "best")
"""The source, what changed against the parent, against the best."""
NOTE: Final = "   <- "
GUTTER: Final = 7
"""Cells before a line of source: its number, and a mark where it is hot."""
_CHANGES: Final[Mapping[str, str]] = {"+": "green", "-": "red", "@": "cyan"}


def source_lines(filed: Filed) -> tuple[list[Text], list[int]]:
    """All files of a kernel, numbered, and the places of its hot lines among the lines."""
    kernel = filed.kernel
    lines: list[Text] = []
    hot: list[int] = []
    for name, text in kernel.files.items():
        notes = _notes(filed.profile, name)
        if len(kernel.files) > 1:
            lines.append(Text(f"── {clean(name, 80)} ──", style="bold"))
        for number, row in enumerate(text.removesuffix("\n").split("\n"), start=1):
            note = notes.get(number)
            if note is not None:
                hot.append(len(lines))
            lines.append(_numbered(number, clean(row), note))
    return lines, hot


def diff_lines(before: Kernel | None, after: Kernel, names: tuple[str, str]) -> list[Text]:
    """What differs, by file and in the build's settings; names: of both."""
    if before is None:
        return [Text("there is nothing to compare it with", style="dim")]
    lines: list[Text] = []
    for name in sorted(before.files.keys() | after.files.keys()):
        old, new = before.files.get(name, "").splitlines(), after.files.get(name, "").splitlines()
        for row in difflib.unified_diff(old, new, f"{names[0]}/{name}", f"{names[1]}/{name}", lineterm=""):
            lines.append(Text(clean(row), style="bold" if row[:3] in ("+++", "---") else _CHANGES.get(row[:1], "")))
    settings = [
        f"{sign} {name}={value}"
        for sign, those, others in (("-", before, after), ("+", after, before))
        for name, value in those.defines.items()
        if others.defines.get(name) != value
    ]
    if before.flags != after.flags:
        settings += [f"- {' '.join(before.flags) or 'no flags'}", f"+ {' '.join(after.flags) or 'no flags'}"]
    if settings:
        lines += [Text("build settings", style="bold")]
        lines += [Text(clean(row), style=_CHANGES[row[0]]) for row in settings]
    return lines or [Text("they are the same", style="dim")]


def _numbered(number: int, row: str, note: str | None) -> Text:
    """Without colours, which `painted` gives to the lines that are seen."""
    if note is None:
        return Text(f"{number:>{GUTTER - 2}}  {row}")
    return Text(f"{number:>{GUTTER - 2}}> {row}{NOTE}{clean(note, 200)}")


def _notes(profile: Profile | None, name: str) -> dict[int, str]:
    """Why lines of a file are hot, by number."""
    notes: dict[int, list[str]] = {}
    for line in profile.hot_lines if profile is not None else ():
        if line.file == name:
            share = f"{percent(line.share)} " if line.share is not None else ""
            notes.setdefault(line.line, []).append(f"{share}{line.note}")
    return {number: "; ".join(said) for number, said in notes.items()}


def painted(line: Text) -> Text:
    """A numbered line of C++, CUDA or Python with colours: comments, strings, numbers, words of the language.

    It knows one line at a time, so that only those that are seen cost anything; a comment over several lines keeps its
    plain colour where no line of it begins with a star.
    """
    if line.plain[: GUTTER - 2].strip().isdigit():
        line = line.copy()
        hot = line.plain[GUTTER - 2] == ">"
        end = line.plain.rfind(NOTE) if hot else len(line.plain)
        line.stylize("bold yellow" if hot else "dim", 0, GUTTER)
        line.stylize("bold yellow", end)
        for found in _TOKENS.finditer(line.plain, GUTTER, end):
            line.stylize(_STYLES[str(found.lastgroup)], *found.span())
    return line


_STYLES: Final[Mapping[str, str]] = {
    "comment": "dim italic",
    "string": "yellow",
    "directive": "cyan",
    "number": "magenta",
    "word": "blue bold",
}
_WORDS: Final = (
    "alignas|auto|bool|break|case|char|class|const|constexpr|continue|def|do|double|else|enum|extern|false|float|for|from"
    "|if|import|inline|int|long|namespace|return|short|signed|sizeof|static|struct|switch|template|true|typedef|typename"
    "|unsigned|using|void|volatile|while|__global__|__device__|__shared__|__restrict__|__restrict|__launch_bounds__"
    "|u?int(?:8|16|32|64)_t|size_t"
)
_TOKENS: Final = re.compile(
    r"(?P<comment>//.*|/\*.*?(?:\*/|$)|^\s*\*.*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<directive>#\s*[a-z]+)"
    r"|(?P<number>\b(?:0x[0-9a-fA-F]+|\d[\d.]*(?:e[+-]?\d+)?)[fuUlL]*\b)"
    rf"|(?P<word>\b(?:{_WORDS})\b)"
)
