"""A small program of the model's own and what came of it: a question to the hardware, never a verdict.

Not covered: building and running it (`tools.experiment`).
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from pydantic import Field, model_validator

from tools.records import Diagnostic, Record, content_id

ProgramLanguage: TypeAlias = Literal["cpp", "cuda"]
MAIN_FILE: Final[dict[ProgramLanguage, str]] = {"cpp": "main.cpp", "cuda": "main.cu"}
MOST_SECONDS: Final = 30.0
STDOUT_BYTES: Final = 12 << 10
STDERR_BYTES: Final = 4 << 10


class Program(Record):
    """Sources with an `int main`, and how to build and run them. The task's `task.h` can be included."""

    language: ProgramLanguage
    files: dict[str, str]
    """Relative POSIX path to text; holds `MAIN_FILE[language]`."""
    defines: dict[str, str] = Field(default={})
    flags: tuple[str, ...] = ()
    """Extra compiler flags out of the target's allowed set."""
    seconds: float = Field(default=10.0, gt=0, le=MOST_SECONDS)
    """Wall time after which it is ended."""

    @property
    def id(self) -> str:
        return content_id(self.model_dump(mode="json"))

    @model_validator(mode="after")
    def _has_main_file(self) -> Program:
        if MAIN_FILE[self.language] not in self.files:
            raise ValueError(f"a {self.language} program needs a file named {MAIN_FILE[self.language]}")
        return self


Outcome: TypeAlias = Literal["not_built", "ended", "crashed", "timeout", "out_of_memory"]


class Experiment(Record):
    """What a program did. Whatever it printed is its own claim."""

    program: str
    """Its id."""
    status: Outcome
    diagnostics: tuple[Diagnostic, ...] = ()
    """Of the compiler; with an error when it was not built."""
    exit_code: int | None = None
    """Of a program that ended by itself."""
    signal: str | None = None
    """Of one that crashed, as SIGSEGV."""
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    """It printed more than is kept."""
    seconds: float | None = None
    """From its start to its end; absent when it did not run."""

    @model_validator(mode="after")
    def _status_decides_fields(self) -> Experiment:
        if (self.status == "ended") != (self.exit_code is not None):
            raise ValueError("a program has an exit code when it ended by itself")
        if (self.status == "crashed") != (self.signal is not None):
            raise ValueError("a program has a signal when it crashed")
        if (self.status == "not_built") == (self.seconds is not None):
            raise ValueError("a program has a run time when it was built")
        if self.status == "not_built" and all(each.severity != "error" for each in self.diagnostics):
            raise ValueError("a program that was not built has an error")
        return self
