"""CUDA C++ kernels for one GPU architecture, compiled with nvcc in the sandbox. It needs no GPU.

Not covered: what the sources say (the judge screens them), and running what was built.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from tools.device_code import DeviceCode, DeviceFunction
from tools.errors import InfrastructureError, KernelError
from tools.machine_code import Form
from tools.process import Completed
from tools.records import Diagnostic, Kernel, Language, TargetName
from tools.targets.base import Build, FlagGroup, Variant
from tools.targets.building import (
    HEADER,
    LIBRARY,
    STANDARD_LIBRARIES,
    CutShort,
    Workplace,
    built,
    check_settings,
    failed,
    inspect,
    kept_build,
    last_line,
)
from tools.targets.cuda_flags import TUNABLE, allowed_flag
from tools.targets.cuda_headers import left_out
from tools.targets.cuda_listing import KEPT, listing
from tools.targets.cuda_messages import read_messages_of_nvcc
from tools.targets.cuda_toolkit import chosen_architecture, find_toolkit
from tools.targets.cuda_vendor import LIBRARIES, folders, link_words
from tools.targets.cuda_workplace import driver_library, nvcc, workplace
from tools.targets.foresee import foreseen_faults
from tools.targets.occupancy import occupancy_by_size
from tools.targets.ptxas import Use, launch_bounds, read_report
from tools.toolchain import find_compiler

_FORMAT = "5"  # of the cached folders; raise it when their content changes
_SIGNATURE = "const task::Args&, void*, task::Stream"
_FIXED = ("-O3", "-lineinfo", "-shared", "-Xcompiler=-fPIC", "-Xptxas=-v", "-I.")
_LINKED = ("-Xlinker=-z,defs", "-Xlinker=--as-needed")
_DRIVER = re.compile(r"libcuda\.so(\.\d+)*")
_MAPPED = re.compile(r"(libcuda|libcudart|libcudadebugger|libnvidia-[\w-]+)\.so(\.\d+)*")
_UNDEFINED = re.compile(r"undefined reference to `(\w+)'")
_MANGLED = re.compile(r"\b_Z[\w$]+")
_NOT_THE_KERNELS: Final = (
    (re.compile(r"(?m)^nvcc fatal\s*: Unsupported gpu architecture '(?P<what>[^']*)'"),
     "nvcc here knows no architecture `{what}`",
     "Set WARPSMITH_CUDA_ARCH to one that it knows (`nvcc --list-gpu-arch`), or install a newer toolkit."),
    (re.compile(r"(?m)^\S*host_config\.h\b.*unsupported (?P<what>GNU|clang) version!"),
     "nvcc here does not take this machine's g++",
     "Install a g++ that this CUDA toolkit supports, or a newer toolkit."),
    (re.compile(r"(?m)^sh: .*\b(?P<what>cicc|ptxas|fatbinary|cudafe\+\+): (?:command )?not found"),
     "nvcc here lacks its own `{what}`", "Install the CUDA toolkit again."),
)  # fmt: skip
"""What nvcc says of any kernel alike, in words of ours and with advice: no verdict on this one."""
_OTHER_SOLVE = 'overloaded function "solve" has "C" linkage'
_FATAL = re.compile(r"(?m)^nvcc fatal\s*: (.*)")
_ABSENT = re.compile(r"cannot find -l(\w+)")


class CudaTarget:
    """The `cuda` target for one architecture: the given one, else `chosen_architecture()`. Construction costs nothing;
    compilers and devices are looked up on first use."""

    def __init__(self, architecture: str | None = None) -> None:
        self._named = architecture

    @functools.cached_property
    def architecture(self) -> str:
        """As `sm_90a`."""
        return self._named or chosen_architecture()

    @property
    def name(self) -> TargetName:
        return "cuda"

    @property
    def languages(self) -> tuple[Language, ...]:
        return ("cuda", "torch")

    @property
    def tunable_flags(self) -> tuple[FlagGroup, ...]:
        return TUNABLE

    def toolchain(self) -> dict[str, str]:
        toolkit = find_toolkit()
        return {
            "compiler": f"nvcc {toolkit.version}",
            "host_compiler": find_compiler().version,
            "path": str(toolkit.nvcc),
            "architecture": self.architecture,
            "flags": " ".join((*nvcc(self.architecture)[3:], *_FIXED)),
        }

    def compile_kernel(
        self, kernel: Kernel, header: str, variant: Variant = "release", libraries: Sequence[str] = ()
    ) -> Build:
        """See `Target`. A build is cached by sources, header, settings, architecture and compilers, failed ones too.

        The variants are one and the same: line information is always there, and CUDA's sanitizer and profiler take the
        release build. What `foreseen_faults` finds is refused before nvcc runs.
        """
        self._check(kernel, variant, libraries)
        linked = [name for name in libraries if name in LIBRARIES]
        faults = foreseen_faults(kernel, header, self.architecture)
        if faults:
            return failed(kernel, (), faults, "compile_error")
        toolkit, compiler = find_toolkit(), find_compiler()
        identity = [
            *("cuda", _FORMAT, kernel.id, header, self.architecture, *link_words(linked)),
            *(toolkit.identity, compiler.identity),
        ]
        files = {**kernel.files, HEADER: header}
        return kept_build(identity, files, lambda folder: self._build(folder, kernel, header, linked))

    def may_map(self, library: str, libraries: Sequence[str] = ()) -> bool:
        """See `Target`. A library that the task allows brings others with it, so then nothing is strange."""
        return bool(libraries) or any(each.fullmatch(library) for each in (STANDARD_LIBRARIES, _MAPPED))

    def listing(self, build: Build, function: str | None, form: Form) -> str:
        """See `Target`: PTX or SASS."""
        return listing(build, function, form)

    def _check(self, kernel: Kernel, variant: Variant, libraries: Sequence[str]) -> None:
        if kernel.language != "cuda":
            raise KernelError(f"the cuda target compiles no {kernel.language} kernels", "Give it a kernel.cu.")
        if variant == "simulate":
            raise InfrastructureError("a CUDA kernel can't be simulated", "Profile it on a GPU.")
        check_settings(kernel, libraries, allowed_flag)
        stems = [PurePosixPath(path).stem for path in _sources(kernel)]
        twice = next((stem for stem in stems if stems.count(stem) > 1), None)
        if twice is not None:  # what nvcc keeps on the way has the source's name
            raise KernelError(f"two sources are named {twice}", "Give each source a name of its own.")

    def _build(self, folder: Path, kernel: Kernel, header: str, libraries: Sequence[str]) -> Build:
        (folder / KEPT).mkdir()
        place, spared = workplace(folder, libraries=folders(libraries)), left_out(kernel, header)
        command = self._command(kernel, spared, libraries)
        result = place.run(command)
        if spared and not result.ok and place.limit_met(result) is None:
            command = self._command(kernel, (), libraries)
            result = place.run(command)
        ptx = _keep_ptx(folder / KEPT)
        diagnostics = _readable(place, read_messages_of_nvcc(result.stderr, "\n".join(ptx)))
        limit = place.limit_met(result)
        if limit is not None:
            message = f"the compiler needed more than {limit}"
            raise CutShort(failed(kernel, command, diagnostics, "compile_error", message=message, result=result))
        if not result.ok:
            _require_working_nvcc(result.stderr)
            return _explained(kernel, command, diagnostics, libraries, result)
        fault = inspect(place, lambda needed: _may_need(needed, libraries), _SIGNATURE)
        if fault is not None:
            return failed(kernel, command, diagnostics, fault[0], message=fault[1], result=result)
        device = self._device(place, result.stderr, "\n".join(ptx))
        return built(kernel, command, result, diagnostics, device)

    def _command(self, kernel: Kernel, spared: Sequence[str], libraries: Sequence[str]) -> tuple[str, ...]:
        return (
            *(*nvcc(self.architecture), *_FIXED, *kernel.flags),
            *(f"-D{name}={value}" for name, value in sorted(kernel.defines.items())),
            *(*spared, "-keep", "-keep-dir", f"../{KEPT}"),
            *(*_sources(kernel), "-o", f"../{LIBRARY}", *_LINKED),
            *(*link_words(libraries), *driver_library()),
        )

    def _device(self, workplace: Workplace, report: str, ptx: str) -> DeviceCode:
        uses = sorted(read_report(report), key=lambda use: use.registers is None)
        names = _demangled(workplace, [use.symbol for use in uses])
        bounds = launch_bounds(ptx)
        functions = tuple(
            _function(self.architecture, use, name, bounds.get(use.symbol))
            for use, name in zip(uses, names, strict=True)
        )
        return DeviceCode(architecture=self.architecture, functions=functions)


def _sources(kernel: Kernel) -> list[str]:
    return sorted(path for path in kernel.files if PurePosixPath(path).suffix in (".cu", ".cpp", ".cc"))


def _function(architecture: str, use: Use, name: str, most: int | None) -> DeviceFunction:
    frame = {"stack_bytes": use.stack, "spill_store_bytes": use.spill_stores, "spill_load_bytes": use.spill_loads}
    if use.registers is None or use.shared is None:
        return DeviceFunction(kind="function", name=name, symbol=use.symbol, **frame)
    return DeviceFunction(
        kind="kernel",
        name=name,
        symbol=use.symbol,
        **frame,
        registers=use.registers,
        static_shared_bytes=use.shared,
        barriers=use.barriers,
        most_threads=most,
        occupancy=occupancy_by_size(architecture, use.registers, use.shared, use.barriers, most),
    )


def _may_need(library: str, libraries: Sequence[str]) -> bool:
    allowed = any(library.startswith(f"lib{name}.so") for name in libraries)
    return allowed or any(each.fullmatch(library) for each in (STANDARD_LIBRARIES, _DRIVER))


def _keep_ptx(folder: Path) -> list[str]:
    """The PTX that nvcc made, all its other intermediate files removed."""
    for path in folder.iterdir():
        if path.suffix != ".ptx":
            path.unlink()
    return [path.read_text(errors="replace") for path in sorted(folder.glob("*.ptx"))]


def _require_working_nvcc(said: str) -> None:
    """InfrastructureError when nvcc failed for what is no fault of the kernel's."""
    for pattern, message, advice in _NOT_THE_KERNELS:
        if (match := pattern.search(said)) is not None:
            raise InfrastructureError(message.format(what=match["what"]), advice)


def _require_word_of_kernel(kernel: Kernel, diagnostics: Sequence[Diagnostic], result: Completed) -> None:
    """InfrastructureError when nothing that nvcc said before it failed is about the kernel.

    nvcc's own fatal messages are about its command line, and so about the kernel only where that has flags of it; the
    linker and a front end that breaks name what was made of the kernel's files.
    """
    of_nvcc = set() if kernel.flags else set(_FATAL.findall(result.stderr))
    if any(each.severity == "error" and each.message not in of_nvcc for each in diagnostics):
        return
    stems = "|".join(re.escape(PurePosixPath(path).stem) for path in kernel.files)
    named = re.compile(rf"(?<![\w.-])(?:{stems})\.(?!so\b)\w")
    harmless = re.compile(r"\b(?:warning|remark|info)\b")
    if not any(named.search(line) and not harmless.search(line) for line in result.stderr.splitlines()):
        message = f"nvcc failed and said nothing of the kernel: {last_line(result)}"
        raise InfrastructureError(message, "Try nvcc by hand; if it builds nothing, install the CUDA toolkit again.")


def _explained(
    kernel: Kernel,
    command: Sequence[str],
    diagnostics: Sequence[Diagnostic],
    libraries: Sequence[str],
    result: Completed,
) -> Build:
    """A failed build; functions of a library that the task does not allow are told apart from mistakes."""
    missing = _ABSENT.search(result.stderr)
    if missing is not None:
        raise InfrastructureError(f"the task allows {missing[1]}, which this machine lacks", f"Install {missing[1]}.")
    for function in _UNDEFINED.findall(result.stderr):
        owner = next((library for library in LIBRARIES if function.startswith(library)), None)
        if owner is not None and owner not in libraries:
            message = f"it calls {function} of {owner}, which the task does not allow"
            return failed(kernel, command, diagnostics, "forbidden_library", message=message, result=result)
    _require_word_of_kernel(kernel, diagnostics, result)
    if any(_OTHER_SOLVE in each.message for each in diagnostics):
        wanted = Diagnostic(severity="note", message=f"{HEADER} declares `void solve({_SIGNATURE})`", file=HEADER)
        diagnostics = (*diagnostics, wanted)
    return failed(kernel, command, diagnostics, "compile_error", result=result)


def _demangled(workplace: Workplace, symbols: list[str]) -> list[str]:
    """Names as in the source; the symbols themselves where c++filt is missing."""
    if not symbols:
        return []
    result = workplace.run(("c++filt", "--", *symbols))
    lines = result.stdout.splitlines()
    return lines if result.ok and len(lines) == len(symbols) else symbols


def _readable(workplace: Workplace, diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The same messages with the assembler's and the linker's names as in the source."""
    symbols = sorted({name for each in diagnostics for name in _MANGLED.findall(each.message)})
    names = dict(zip(symbols, _demangled(workplace, symbols), strict=True))

    def readable(message: str) -> str:
        return _MANGLED.sub(lambda match: names[match[0]], message)

    return tuple(each.model_copy(update={"message": readable(each.message)}) for each in diagnostics)
