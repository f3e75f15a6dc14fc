"""C++ kernels for this machine's CPU, compiled with g++ in the sandbox.

Not covered: what the sources say (the judge screens them); here only the settings, the compiler's verdict and what the
finished library needs are looked at.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from tools.cache import stored
from tools.errors import InfrastructureError, KernelError
from tools.process import Completed, run_command
from tools.records import BuildReport, Diagnostic, Kernel, Language, Reason, TargetName
from tools.sandbox import REFUSED, Confinement, detect
from tools.targets.base import Build, FlagGroup, Variant
from tools.targets.cpu_flags import allowed_flag, tunable_flags
from tools.toolchain import Compiler, find_compiler

HEADER = "task.h"
COMPILE_SECONDS = 60.0
_FORMAT = "1"  # of the cached folders; raise it when their content changes
_MEMORY, _FILE_SIZE = 4 << 30, 256 << 20  # bytes that one compiler process may use, and write to one file
_OUTPUT, _REPORT = 64 << 10, 8 << 20  # bytes of the compiler's words that are kept, and with an optimisation report

_BASE = ("-std=c++20", "-O2", "-march=native", "-fopenmp", "-shared", "-fPIC", "-Wall", "-Wno-unknown-pragmas")
_FIXED = ("-fdiagnostics-color=never", "-fmax-errors=20", "-I.", "-Wl,-z,defs")
_VARIANT: dict[Variant, tuple[str, ...]] = {
    "release": (),
    "profile": ("-g", "-fopt-info-vec-optimized-missed-internals"),
    "simulate": ("-g",),
    "asan": ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}
_STANDARD_LIBRARIES = re.compile(
    r"(libc|libm|libmvec|libstdc\+\+|libgcc_s|libgomp|libatomic|libpthread|libdl|librt|libasan|libubsan|ld-linux[\w-]*)\.so(\.\d+)*"
)
_DEFINE_NAME, _DEFINE_VALUE = re.compile(r"[A-Za-z_]\w*"), re.compile(r"[\w.+-]*")
_PATH_PART = re.compile(r"\w[\w.+-]*")
_MESSAGE = re.compile(
    r"(?P<file>[^\s:]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?(?P<severity>error|warning|note): "
    r"(?P<message>.*)"
)
_UNDEFINED = re.compile(r"(?:(?P<file>[^\s:()]+):(?P<line>\d+): )?(?P<message>undefined reference to .*)")


class CpuTarget:
    """The `cpu` target. Construction costs nothing; the compiler is looked up on first use."""

    @property
    def name(self) -> TargetName:
        return "cpu"

    @property
    def languages(self) -> tuple[Language, ...]:
        return ("cpp",)

    @property
    def tunable_flags(self) -> tuple[FlagGroup, ...]:
        return tunable_flags(find_compiler().cpu)

    def toolchain(self) -> dict[str, str]:
        compiler = find_compiler()
        return {"compiler": compiler.version, "path": str(compiler.path), "flags": " ".join(_BASE)}

    def compile_kernel(
        self, kernel: Kernel, header: str, variant: Variant = "release", libraries: Sequence[str] = ()
    ) -> Build:
        """See `Target`. A build is cached by sources, header, settings, compiler and CPU, failed ones too."""
        check_settings(kernel, libraries)
        compiler = find_compiler()
        files = {**kernel.files, HEADER: header}
        identity = [_FORMAT, kernel.id, header, variant, *libraries, compiler.identity]
        fresh: list[Build] = []

        def make(folder: Path) -> None:
            for path, text in files.items():
                (folder / "src" / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / "src" / path).write_text(text)
            fresh.append(_build(folder, kernel, variant, libraries, compiler))
            (folder / "build.json").write_text(fresh[0].model_dump_json())

        try:
            folder = stored("builds", identity, make)
        except _CutShort as stopped:  # by a limit: another day it may pass, so it is not kept
            return stopped.build
        build = Build.model_validate_json((folder / "build.json").read_text())
        library = folder / "kernel.so" if build.library is not None else None
        report = build.report.model_copy(update={"cached": not fresh})
        return build.model_copy(update={"library": library, "report": report})

    def may_map(self, library: str, libraries: Sequence[str] = ()) -> bool:
        """See `Target`. A library that the task allows brings others with it, so then nothing is strange."""
        return bool(libraries) or _STANDARD_LIBRARIES.fullmatch(library) is not None


def check_settings(kernel: Kernel, libraries: Sequence[str] = ()) -> None:
    """KernelError when the kernel's language, paths, flags or defines are not allowed."""
    if kernel.language != "cpp":
        raise KernelError(f"the cpu target compiles no {kernel.language} kernels", "Give it a kernel.cpp.")
    for path in kernel.files:
        if not all(_PATH_PART.fullmatch(part) for part in path.split("/")):
            raise KernelError(f"`{path}` can't be a kernel's file", "Use relative paths of plain names.")
        if path == HEADER:
            raise KernelError(f"a kernel can't bring its own {HEADER}", "It is generated; include it.")
    for flag in kernel.flags:
        if not allowed_flag(flag):
            raise KernelError(f"the compiler flag `{flag}` is not allowed", "Optimisation flags are; paths are not.")
    for name, value in kernel.defines.items():
        if not (_DEFINE_NAME.fullmatch(name) and _DEFINE_VALUE.fullmatch(value)):
            raise KernelError(f"`{name}={value}` can't be a define", "Use a C name and a plain value.")
    for library in libraries:
        if not _PATH_PART.fullmatch(library):
            raise KernelError(f"`{library}` is no library's name", "Write it as for -l, without `lib` and `.so`.")


class _CutShort(Exception):
    """A build that a limit ended."""

    def __init__(self, build: Build) -> None:
        super().__init__(build.message)
        self.build = build


def _build(folder: Path, kernel: Kernel, variant: Variant, libraries: Sequence[str], compiler: Compiler) -> Build:
    sources = sorted(path for path in kernel.files if PurePosixPath(path).suffix in (".cpp", ".cc", ".cxx"))
    command = (
        str(compiler.path),
        *_BASE,
        *kernel.flags,
        *(f"-D{name}={value}" for name, value in sorted(kernel.defines.items())),
        *_VARIANT[variant],
        *(_simulated_cpu(compiler.cpu) if variant == "simulate" else ()),
        *_FIXED,
        f"-ffile-prefix-map={folder / 'src'}=.",
        *sources,
        "-o",
        "../kernel.so",
        *(f"-l{library}" for library in libraries),
    )
    result = _confined(command, folder, compiler, output=_REPORT if variant == "profile" else _OUTPUT)
    shown = tuple(word for word in command if not word.startswith("-ffile-prefix-map"))
    diagnostics = _diagnostics(result.stderr)

    def build(reason: Reason | None, message: str, extra: Sequence[Diagnostic] = ()) -> Build:
        report = BuildReport(
            kernel=kernel.id,
            built=reason is None,
            seconds=result.seconds,
            command=shown,
            diagnostics=(*diagnostics, *extra),
            output=result.stderr,
        )
        return Build(
            report=report, library=Path("kernel.so") if reason is None else None, reason=reason, message=message
        )

    if result.timed_out or "virtual memory exhausted" in result.stderr or "out of memory" in result.stderr:
        limit = f"{COMPILE_SECONDS:g} s" if result.timed_out else f"{_MEMORY >> 30} GiB of memory"
        message = f"the compiler needed more than {limit}"
        raise _CutShort(build("compile_error", message, [Diagnostic(severity="error", message=message)]))
    if not result.ok:
        errors = [item for item in diagnostics if item.severity == "error"]
        extra = [] if errors else [Diagnostic(severity="error", message=_last_line(result))]
        first = (errors or extra)[0]
        place = f"{first.file}:{first.line}: " if first.file else ""
        return build("compile_error", place + first.message, extra)
    reason, message = _inspect(folder, libraries, compiler)
    return build(reason, message, [Diagnostic(severity="error", message=message)] if reason else [])


def _simulated_cpu(cpu: str) -> tuple[str, ...]:
    """The widest x86 instruction set that valgrind can run on this CPU: no AVX-512, whatever the kernel's flags say."""
    if platform.machine() != "x86_64":
        return ("-march=armv8-a",) if platform.machine() == "aarch64" else ()
    return ("-march=x86-64-v3" if "avx2" in cpu.split() else "-march=x86-64-v2", "-mno-avx512f")


def _inspect(folder: Path, libraries: Sequence[str], compiler: Compiler) -> tuple[Reason | None, str]:
    """Whether the finished library has the entry and needs only what is allowed."""
    listing = _confined(("readelf", "-W", "-d", "--dyn-syms", "../kernel.so"), folder, compiler, output=16 << 20)
    if not listing.ok:
        raise InfrastructureError(f"readelf failed: {_last_line(listing)}", "Install binutils.")
    if not re.search(r" FUNC +GLOBAL +DEFAULT +\d+ solve$", listing.stdout, re.MULTILINE):
        return (
            "no_entry",
            'the library has no function `solve`: define `extern "C" void solve(const task::Args&, void*)`',
        )
    allowed = tuple(f"lib{library}.so" for library in libraries)
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", listing.stdout):
        if not _STANDARD_LIBRARIES.fullmatch(needed) and not needed.startswith(allowed or ("\0",)):
            return "forbidden_library", f"the library needs {needed}, which the task does not allow"
    return None, ""


def _confined(command: Sequence[str], folder: Path, compiler: Compiler, output: int = _OUTPUT) -> Completed:
    """Run a tool of the compiler in `folder`/src with nothing in reach but that folder."""
    path = f"{compiler.path.parent}:/usr/bin:/bin"
    policy = Confinement(
        read_only=compiler.folders,
        writable=(folder,),
        memory=_MEMORY,
        file_size=_FILE_SIZE,
        cpu_seconds=120,
        allow_fork=True,
    )
    result = run_command(
        detect().wrap(command, policy),
        timeout=COMPILE_SECONDS,
        cwd=folder / "src",
        env={"PATH": path, "LC_ALL": "C", "TMPDIR": str(folder)},
        output_limit=output,
    )
    if result.exit_code == REFUSED or result.stderr.startswith(("bwrap:", "jail:")):
        raise InfrastructureError(f"the compiler's sandbox failed: {_last_line(result)}", "Run `warpsmith doctor`.")
    return result


def _diagnostics(text: str) -> tuple[Diagnostic, ...]:
    found = []
    for line in text.splitlines():
        match = _MESSAGE.fullmatch(line)
        parts: Mapping[str, str | None] | None = match.groupdict() if match else None
        if parts is None and (match := _UNDEFINED.search(line)):
            parts = {"severity": "error", "column": None, **match.groupdict()}
        if parts is not None:
            found.append(Diagnostic.model_validate({**parts, "file": _plain(parts["file"])}))
    return tuple(found)


def _plain(file: str | None) -> str | None:
    return file.removeprefix("./") if file else None


def _last_line(result: Completed) -> str:
    lines = result.stderr.strip().splitlines()
    return lines[-1][:300] if lines else f"ended with exit code {result.exit_code}, signal {result.signal}"
