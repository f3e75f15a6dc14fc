"""What a target is: a compiler with a closed set of flags, and what a tuner may try of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from tools.machine_code import Form
from tools.records import BuildReport, Kernel, Language, Reason, Record, TargetName

Variant: TypeAlias = Literal["release", "asan", "profile", "simulate"]
"""`profile` is the release build with -g and the optimisation report (-fopt-info-vec-optimized-missed-internals) in
`report.output`, untrimmed; `simulate` is the release build with -g for an instruction set that valgrind can run (on
x86 -march=x86-64-v3 after all other flags, whatever -march the kernel asks for)."""
FlagGroup: TypeAlias = tuple[tuple[str, ...], ...]
"""Alternatives of which one is taken; each is a set of flags, the first (the default) often empty."""


class Build(Record):
    """A build that worked (`library`) or did not (`reason`, `message`)."""

    report: BuildReport
    library: Path | None = None
    reason: Reason | None = None
    """compile_error, no_entry or forbidden_library."""
    message: str = ""
    language: Language = "cpp"
    """`torch` where `library` is the folder of a torch build; what the others make is loaded in one way."""


class Target(Protocol):
    """A place where kernels run."""

    @property
    def name(self) -> TargetName: ...

    @property
    def languages(self) -> tuple[Language, ...]: ...

    @property
    def tunable_flags(self) -> tuple[FlagGroup, ...]:
        """Groups of alternatives for the tuner; concatenate one alternative of each group into `Kernel.flags`."""
        ...

    def toolchain(self) -> dict[str, str]:
        """What compiles here, for the hardware facts: compiler, version, architecture."""
        ...

    def compile_kernel(
        self, kernel: Kernel, header: str, variant: Variant = "release", libraries: Sequence[str] = ()
    ) -> Build:
        """Build `kernel` against `header` (the text of task.h), or return the cached build.

        `libraries` are names of shared libraries that the task allows beyond the standard ones, as "openblas".
        KernelError when its files, flags or defines are not allowed; InfrastructureError when there is no compiler.
        """
        ...

    def listing(self, build: Build, function: str | None, form: Form) -> str:
        """The machine code of a build that worked: of one function, or of all that the kernel brings when None.

        KernelError when the build, the target or this machine has none of that kind.
        """
        ...

    def may_map(self, library: str, libraries: Sequence[str] = ()) -> bool:
        """Whether a worker may have a shared library of this file name loaded, when the task allows `libraries`."""
        ...
