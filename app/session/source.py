"""A kernel as lines: its source with hot lines marked, or what it changed against another one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from rich.syntax import Syntax
from rich.text import Text

from app.quantities import percent
from app.session.archive import Filed
from app.session.lines import LONGEST, clean
from tools.profiles import Profile
from tools.records import Kernel

View: TypeAlias = Literal["source", "parent", "best"]
VIEWS: Final[tuple[View, ...]] = ("source", "parent", "best")
"""The source, what changed against the parent, against the best."""
HIGHLIGHTED: Final = 120_000
"""Characters of a file up to which it is coloured."""
_LEXERS: Final[Mapping[str, str]] = {"cpp": "cpp", "cuda": "cuda", "torch": "python"}
_CHANGES: Final[Mapping[str, str]] = {"+": "green", "-": "red", "@": "cyan"}


def source_lines(filed: Filed) -> tuple[list[Text], list[int]]:
    """All files of a kernel, numbered, and the places of its hot lines among the lines."""
    kernel, lines, hot = filed.kernel, [], []
    for name, text in kernel.files.items():
        notes = _notes(filed.profile, name)
        if len(kernel.files) > 1:
            lines.append(Text(f"── {clean(name, 80)} ──", style="bold"))
        for number, row in enumerate(_coloured(text, kernel.language), start=1):
            note = notes.get(number)
            if note is not None:
                hot.append(len(lines))
            lines.append(_numbered(number, row, note))
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


def _numbered(number: int, row: Text, note: str | None) -> Text:
    line = Text(f"{number:>5}{'>' if note is not None else ' '} ", style="bold yellow" if note is not None else "dim")
    line = Text.assemble(line, row)
    if note is not None:
        line.append(f"   <- {clean(note, 200)}", style="bold yellow")
    return line


def _notes(profile: Profile | None, name: str) -> dict[int, str]:
    """Why lines of a file are hot, by number."""
    notes: dict[int, list[str]] = {}
    for line in profile.hot_lines if profile is not None else ():
        if line.file == name:
            share = f"{percent(line.share)} " if line.share is not None else ""
            notes.setdefault(line.line, []).append(f"{share}{line.note}")
    return {number: "; ".join(said) for number, said in notes.items()}


def _coloured(text: str, language: str) -> list[Text]:
    """The lines of a source, harmless and coloured; a line may be cut, but none is left out."""
    whole = [clean(row, LONGEST) for row in text.split("\n")]
    if whole and not whole[-1]:
        whole.pop()
    if sum(map(len, whole)) > HIGHLIGHTED:
        return [Text(row) for row in whole]
    coloured = Syntax("", _LEXERS.get(language, "cpp"), theme="ansi_dark").highlight("\n".join(whole))
    found = list(coloured.split("\n", allow_blank=True))
    return found[: len(whole)] if len(found) >= len(whole) else [Text(row) for row in whole]
