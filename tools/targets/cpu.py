"""C++ kernels for this machine's CPU, compiled with g++ in the sandbox.

Not covered: what the sources say (the judge screens them); here only the settings, the compiler's verdict and what the
finished library needs are looked at.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from tools.errors import KernelError
from tools.machine_code import Form
from tools.records import Diagnostic, Kernel, Language, TargetName
from tools.targets.base import Build, FlagGroup, Variant
from tools.targets.building import (
    HEADER,
    LIBRARY,
    OUTPUT,
    STANDARD_LIBRARIES,
    CutShort,
    Workplace,
    built,
    check_settings,
    failed,
    inspect,
    kept_build,
)
from tools.targets.cpu_flags import allowed_flag, tunable_flags
from tools.targets.disassembly import disassembly
from tools.toolchain import Compiler, find_compiler

COMPILE_SECONDS = 60.0
_FORMAT = "2"  # of the cached folders; raise it when their content changes
_MEMORY = 4 << 30  # bytes that one compiler process may use
_REPORT = 8 << 20  # bytes of the compiler's words with an optimisation report

_BASE = ("-std=c++20", "-O2", "-march=native", "-fopenmp", "-shared", "-fPIC", "-Wall", "-Wno-unknown-pragmas")
_FIXED = ("-fdiagnostics-color=never", "-fmax-errors=20", "-I.", "-Wl,-z,defs")
_VARIANT: dict[Variant, tuple[str, ...]] = {
    "release": (),
    "profile": ("-g", "-fopt-info-vec-optimized-missed-internals"),
    "simulate": ("-g",),
    "asan": ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}
_SIGNATURE = "const task::Args&, void*"
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
        return ("cpp", "torch")

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
        if kernel.language != "cpp":
            raise KernelError(f"the cpu target compiles no {kernel.language} kernels", "Give it a kernel.cpp.")
        check_settings(kernel, libraries, allowed_flag)
        compiler = find_compiler()
        identity = [_FORMAT, kernel.id, header, variant, *libraries, compiler.identity]
        files = {**kernel.files, HEADER: header}
        return kept_build(identity, files, lambda folder: _build(folder, kernel, variant, libraries, compiler))

    def listing(self, build: Build, function: str | None, form: Form) -> str:
        """See `Target`: assembly in Intel's syntax."""
        if build.library is None:
            raise KernelError("a kernel that does not build has no machine code", "Build it first.")
        return disassembly(workplace(build.library.parent), function, form)

    def may_map(self, library: str, libraries: Sequence[str] = ()) -> bool:
        """See `Target`. A library that the task allows brings others with it, so then nothing is strange."""
        return bool(libraries) or STANDARD_LIBRARIES.fullmatch(library) is not None


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
        f"../{LIBRARY}",
        *(f"-l{library}" for library in libraries),
    )
    place = workplace(folder)
    result = place.run(command, output=_REPORT if variant == "profile" else OUTPUT)
    shown = tuple(word for word in command if not word.startswith("-ffile-prefix-map"))
    diagnostics = read_diagnostics(result.stderr)
    limit = place.limit_met(result)
    if limit is not None:
        message = f"the compiler needed more than {limit}"
        raise CutShort(failed(kernel, shown, diagnostics, "compile_error", message=message, result=result))
    if not result.ok:
        return failed(kernel, shown, diagnostics, "compile_error", result=result)
    fault = inspect(place, lambda needed: _may_need(needed, libraries), _SIGNATURE)
    if fault is not None:
        return failed(kernel, shown, diagnostics, fault[0], message=fault[1], result=result)
    return built(kernel, shown, result, diagnostics)


def workplace(folder: Path) -> Workplace:
    """A place that may write `folder` and run the compiler."""
    compiler = find_compiler()
    path = f"{compiler.path.parent}:/usr/bin:/bin"
    return Workplace(folder, compiler.folders, path, COMPILE_SECONDS, _MEMORY)


def _may_need(library: str, libraries: Sequence[str]) -> bool:
    allowed = tuple(f"lib{name}.so" for name in libraries)
    return STANDARD_LIBRARIES.fullmatch(library) is not None or library.startswith(allowed or ("\0",))


def _simulated_cpu(cpu: str) -> tuple[str, ...]:
    """The widest x86 instruction set that valgrind can run on this CPU: no AVX-512, whatever the kernel's flags say."""
    if platform.machine() != "x86_64":
        return ("-march=armv8-a",) if platform.machine() == "aarch64" else ()
    return ("-march=x86-64-v3" if "avx2" in cpu.split() else "-march=x86-64-v2", "-mno-avx512f")


def read_diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """The messages of g++ and the linker in `text`, in their order."""
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
