"""Machine code of a build, as much of it as somebody asks to see. A part of `tools.records.BuildReport`.

Not covered: how the text is made (`tools.targets.base.Target.listing`) and cut (`tools.listing`).
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, Field

Form: TypeAlias = Literal["asm", "ptx", "sass"]
"""`asm` is the CPU's own, in Intel's syntax; `ptx` and `sass` are the GPU's, before and after the assembler."""

MOST_LINES: Final = 800


class ListingRequest(BaseModel, frozen=True, extra="forbid"):
    """Which machine code is wanted, and how much of it."""

    form: Form
    function: str | None = Field(default=None, min_length=1, max_length=300)
    """Its symbol, its name, or a word of its name; every function of the kernel's own when absent."""
    around: str | None = Field(default=None, min_length=1, max_length=300)
    """An extended regular expression (`grep -E`): only lines that match, and `context` lines on both sides."""
    context: int = Field(default=3, ge=0, le=50)
    lines: int = Field(default=200, ge=1, le=MOST_LINES)
    """The most that are shown, the first ones."""


class Listing(BaseModel, frozen=True, extra="forbid"):
    """Machine code, cut to what was asked for."""

    form: Form
    text: str
    """Where lines were picked out, each begins with its number."""
    total_lines: int
    shown_lines: int
    matches: int | None = None
    """Lines that match, shown or not; absent where nothing was to match."""
