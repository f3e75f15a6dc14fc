"""Whose turn it is: what the tools of one turn know beside what the model writes, and how a candidate is put
together."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from agents.context import Context
from agents.edits import replace_once
from agents.settings import Role
from agents.state import Hypothesis
from agents.toolbox import Refused
from tools.records import ENTRY_FILE, Kernel, Language
from tools.tunables import settings_kept


@dataclass(frozen=True)
class Seat:
    """One role's turn. `hypothesis` is the coder's; `attempts` is how many attempts the role was told of,
    `device_seconds` what the run had spent on the device before. `call` names the tool call that is done."""

    context: Context
    role: Role
    iteration: int
    attempts: int
    device_seconds: float
    hypothesis: Hypothesis | None = None
    call: str | None = None
    sample: int | None = None
    """Which of several coders of the hypothesis it is, from 1; None when it is the only one."""

    @property
    def parent(self) -> str | None:
        """The attempt that the hypothesis starts from; else the best, or the first while none was accepted."""
        if self.hypothesis is not None and self.hypothesis.parent is not None:
            return self.hypothesis.parent
        return self.context.attempts.standing


class Edit(BaseModel):
    """Replaces one piece of a file; `old` must occur exactly once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(description="Relative path, e.g. `kernel.cpp`.")
    old: str = Field(min_length=1, description="Exact text to replace, whitespace and all; it must occur exactly once.")
    new: str = Field(description="What stands there afterwards.")


class Candidate(BaseModel):
    """A kernel, as what differs from an attempt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str | None = Field(
        default=None, description="Attempt to start from, e.g. `a3`; the hypothesis's parent when left out."
    )
    edits: list[Edit] = Field(default=[], description="Replacements in the base's files, made in this order.")
    files: dict[str, str] = Field(
        default={},
        description="Whole files, path to text; they replace or join the base's. For anything but small edits.",
    )
    remove: list[str] = Field(default=[], description="Files of the base to leave out.")
    defines: dict[str, str | int] = Field(default={}, description='Values of declared tunables, e.g. {"BLOCK": 128}.')
    flags: list[str] | None = Field(
        default=None, description="Compiler flags instead of the base's, e.g. [\"-O3\"]; the base's when left out."
    )


def build_kernel(candidate: Candidate, seat: Seat) -> Kernel:
    """The kernel that `candidate` describes. Refused when an edit does not fit or there is no entry file."""
    base_id = candidate.base or seat.parent
    base = None if base_id is None else seat.context.attempts.kernel(base_id)
    return changed(candidate, base, seat.context.settings.language)


def changed(candidate: Candidate, base: Kernel | None, language: Language) -> Kernel:
    """`base` with what `candidate` changes. A value of a tunable that it writes into the text holds in place of the
    base's setting, unless it sets that too. Refused when an edit does not fit or there is no entry file."""
    files = {} if base is None else dict(base.files)
    for edit in candidate.edits:
        files[edit.file] = replace_once(files, edit.file, edit.old, edit.new)
    files |= candidate.files
    for name in candidate.remove:
        files.pop(name, None)
    if ENTRY_FILE[language] not in files:
        raise Refused(f"the candidate has no {ENTRY_FILE[language]}", "Pass it in `files`, or name a `base`.")
    defines = {} if base is None else settings_kept(base.defines, base.files, files)
    return Kernel(
        language=language,
        files=files,
        defines=defines | {name: str(value) for name, value in candidate.defines.items()},
        flags=tuple(candidate.flags) if candidate.flags is not None else (base.flags if base else ()),
    )
