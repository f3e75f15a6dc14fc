"""What all targets' builds have in common: plain names, a confined compiler, a kept outcome, a look at the library.

Not covered: what the sources say (the judge screens them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.cache import stored
from tools.device_code import DeviceCode
from tools.errors import InfrastructureError, KernelError
from tools.process import Completed, run_command
from tools.program import Program
from tools.records import BuildReport, Diagnostic, Kernel, Reason
from tools.sandbox import REFUSED, Confinement, detect
from tools.targets.base import Build

HEADER = "task.h"
LIBRARY = "kernel.so"
OUTPUT = 64 << 10
"""Bytes of a compiler's words that are kept."""
STANDARD_LIBRARIES = re.compile(
    r"(libc|libm|libmvec|libstdc\+\+|libgcc_s|libgomp|libatomic|libpthread|libdl|librt|libasan|libubsan|ld-linux[\w-]*)\.so(\.\d+)*"
)
_DEFINE_NAME, _DEFINE_VALUE = re.compile(r"[A-Za-z_]\w*"), re.compile(r"[\w.+-]{0,200}")
_PATH_PART = re.compile(r"\w[\w.+-]*")
_LONGEST_PATH = 200  # bytes; a compiler's own files get names that begin so
_FILE_SIZE = 256 << 20  # bytes that a compiler may write to one file


class CutShort(Exception):
    """A build that a limit ended: another day it may pass, so it is not kept."""

    def __init__(self, build: Build) -> None:
        super().__init__(build.message)
        self.build = build


@dataclass(frozen=True)
class Workplace:
    """Where a compiler runs and what it may take."""

    folder: Path
    """The one folder that it may write; it runs in `src` of it."""
    readable: tuple[Path, ...]
    """Folders it needs beyond the system's."""
    path: str
    """Its PATH."""
    seconds: float
    memory: int
    """Bytes of address space of one process."""

    def run(self, command: Sequence[str], output: int = OUTPUT, *, proc: bool = False) -> Completed:
        """Run a tool of the compiler with nothing else in reach, but for `proc` where it looks for its own place there.
        InfrastructureError when the sandbox fails."""
        policy = Confinement(
            read_only=self.readable,
            writable=(self.folder,),
            memory=self.memory,
            file_size=_FILE_SIZE,
            cpu_seconds=int(2 * self.seconds),
            allow_fork=True,
            proc=proc,
        )
        result = run_command(
            detect().wrap(command, policy),
            timeout=self.seconds,
            cwd=self.folder / "src",
            env={"PATH": self.path, "LC_ALL": "C", "TMPDIR": str(self.folder)},
            output_limit=output,
        )
        if result.exit_code == REFUSED or result.stderr.startswith(("bwrap:", "jail:")):
            raise InfrastructureError(f"the compiler's sandbox failed: {last_line(result)}", "Run `warpsmith doctor`.")
        return result

    def limit_met(self, result: Completed) -> str | None:
        """The limit that ended the compiler, in words."""
        if result.timed_out:
            return f"{self.seconds:g} s"
        if "virtual memory exhausted" in result.stderr or "out of memory" in result.stderr.lower():
            return f"{self.memory >> 30} GiB of memory"
        return None


def check_settings(
    kernel: Kernel | Program,
    libraries: Sequence[str],
    allowed_flag: Callable[[str], bool],
    reserved: Sequence[str] = (),
) -> None:
    """KernelError when the kernel's paths, flags or defines, or the libraries' names, are not allowed."""
    for path in kernel.files:
        if not all(_PATH_PART.fullmatch(part) for part in path.split("/")):
            raise KernelError(f"`{path}` can't be a kernel's file", "Use relative paths of plain names.")
        if len(path.encode()) > _LONGEST_PATH:
            raise KernelError(f"`{path[:40]}…` is too long for a kernel's file", f"Use {_LONGEST_PATH} bytes at most.")
        if any(str(folder) in kernel.files for folder in PurePosixPath(path).parents):
            raise KernelError(f"`{path}` lies in what is a file of the kernel too", "Name files and folders apart.")
        if path == HEADER:
            raise KernelError(f"a kernel can't bring its own {HEADER}", "It is generated; include it.")
    for flag in kernel.flags:
        if not allowed_flag(flag):
            raise KernelError(f"the compiler flag `{flag}` is not allowed", "Optimisation flags are; paths are not.")
    for name, value in kernel.defines.items():
        if not (_DEFINE_NAME.fullmatch(name) and _DEFINE_VALUE.fullmatch(value)) or name in reserved:
            raise KernelError(f"`{name}={value}` can't be a define", "Use a C name and a plain value.")
    for library in libraries:
        if not _PATH_PART.fullmatch(library):
            raise KernelError(f"`{library}` is no library's name", "Write it as for -l, without `lib` and `.so`.")


def kept_build(identity: Sequence[str], files: Mapping[str, str], make: Callable[[Path], Build]) -> Build:
    """The build of this identity from the cache (failed ones too), else what `make(folder)` builds of `files`, which
    lie in `folder`/src."""
    fresh: list[Build] = []

    def fill(folder: Path) -> None:
        for path, text in files.items():
            (folder / "src" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "src" / path).write_text(text)
        fresh.append(make(folder))
        (folder / "build.json").write_text(fresh[0].model_dump_json())

    try:
        folder = stored("builds", identity, fill)
    except CutShort as stopped:
        return stopped.build
    build = Build.model_validate_json((folder / "build.json").read_text())
    library = folder / LIBRARY if build.library is not None else None
    report = build.report.model_copy(update={"cached": not fresh})
    return build.model_copy(update={"library": library, "report": report})


def built(kernel: Kernel, command: Sequence[str], result: Completed, diagnostics: Sequence[Diagnostic],
          device: DeviceCode | None = None) -> Build:  # fmt: skip
    """A build that worked."""
    report = BuildReport(
        kernel=kernel.id,
        built=True,
        seconds=result.seconds,
        command=tuple(command),
        diagnostics=tuple(diagnostics),
        output=result.stderr,
        device=device,
    )
    return Build(report=report, library=Path(LIBRARY))


def failed(
    kernel: Kernel,
    command: Sequence[str],
    diagnostics: Sequence[Diagnostic],
    reason: Reason,
    *,
    message: str = "",
    result: Completed | None = None,
) -> Build:
    """A build that failed; without `message` the first error says why, with it an error of that text is added."""
    found = list(diagnostics)
    if message or all(item.severity != "error" for item in found):
        text = message or (last_line(result) if result else "the build failed")
        found.append(Diagnostic(severity="error", message=text))
    first = next(item for item in found if item.severity == "error")
    place = f"{first.file}:{first.line}: " if first.file and first.line else ""
    report = BuildReport(
        kernel=kernel.id,
        built=False,
        seconds=result.seconds if result else 0.0,
        command=tuple(command),
        diagnostics=tuple(found),
        output=result.stderr if result else "",
    )
    return Build(report=report, reason=reason, message=message or place + first.message)


def inspect(workplace: Workplace, allowed: Callable[[str], bool], signature: str) -> tuple[Reason, str] | None:
    """What is wrong with the finished library: no entry, or a needed library of a name that is not `allowed`.

    InfrastructureError when there is no library, although the compiler was content.
    """
    if not (workplace.folder / LIBRARY).is_file():
        raise InfrastructureError("the compiler was content and left no library", "Install it again.")
    listing = workplace.run(("readelf", "-W", "-d", "--dyn-syms", f"../{LIBRARY}"), output=16 << 20)
    if not listing.ok:
        raise InfrastructureError(f"readelf failed: {last_line(listing)}", "Install binutils.")
    if not re.search(r" FUNC +GLOBAL +DEFAULT +\d+ solve$", listing.stdout, re.MULTILINE):
        return "no_entry", f'the library has no function `solve`: define `extern "C" void solve({signature})`'
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", listing.stdout):
        if not allowed(needed):
            return "forbidden_library", f"the library needs {needed}, which the task does not allow"
    return None


def last_line(result: Completed) -> str:
    """The last thing a command said, or how it ended."""
    lines = result.stderr.strip().splitlines()
    return lines[-1][:300] if lines else f"ended with exit code {result.exit_code}, signal {result.signal}"
