"""A kernel's source as a page shows it: numbered lines, those that the profile named marked."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from app.quantities import percent
from app.report_profiles import read_profile
from memory.runs import Attempt, RunFolder
from tools.profiles import SourceLine
from tools.records import Kernel

FILE_CHARACTERS = 200_000
"""Of one file that is shown."""


class NumberedLine(BaseModel):
    """A line of a source. `note` says why it is hot, empty where it is not."""

    model_config = ConfigDict(frozen=True)

    number: int
    text: str
    note: str = ""


class Source(BaseModel):
    """One file."""

    model_config = ConfigDict(frozen=True)

    name: str
    lines: tuple[NumberedLine, ...]
    left_out: int = 0
    """Lines that are not here."""


def sources(run: RunFolder, attempt: Attempt) -> list[Source]:
    """The attempt's files, the entry first as they are stored; hot lines are those of its own profile."""
    seen = read_profile(run, attempt.id)
    hot = seen.profile.hot_lines if seen is not None else ()
    return [_source(name, text, hot) for name, text in Kernel.model_validate(attempt.kernel).files.items()]


def _source(name: str, text: str, hot: tuple[SourceLine, ...]) -> Source:
    notes: dict[int, list[str]] = {}
    for line in hot:
        if line.file == name:
            share = f"{percent(line.share)} " if line.share is not None else ""
            notes.setdefault(line.line, []).append(f"{share}{line.note}")
    lines = text[:FILE_CHARACTERS].splitlines()
    return Source(
        name=name,
        lines=tuple(
            NumberedLine(number=number, text=line, note="; ".join(notes.get(number, ())))
            for number, line in enumerate(lines, start=1)
        ),
        left_out=len(text.splitlines()) - len(lines),
    )
