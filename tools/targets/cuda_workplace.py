"""Where nvcc and the other programs of a CUDA toolkit run, and the words that every call of nvcc begins with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.targets.building import Workplace
from tools.targets.cuda_toolkit import find_toolkit
from tools.toolchain import SYSTEM_PATHS, find_compiler

COMPILE_SECONDS = 120.0
MEMORY = 16 << 30
"""Bytes of address space of one compiler process."""


def workplace(folder: Path, tool: Path | None = None, libraries: Sequence[Path] = ()) -> Workplace:
    """A place that may write `folder` and run the toolkit's programs, and `tool` where that lies elsewhere; `libraries`
    are folders of what is linked beside the toolkit."""
    toolkit, compiler = find_toolkit(), find_compiler()
    path = f"{toolkit.root / 'bin'}:{compiler.path.parent}:/usr/bin:/bin"
    elsewhere = [tool.resolve().parent] if tool is not None else []
    elsewhere = [each for each in elsewhere if not any(each.is_relative_to(known) for known in SYSTEM_PATHS)]
    readable = (*toolkit.folders, *compiler.folders, *elsewhere, *headers_and(libraries))
    return Workplace(folder, readable, path, COMPILE_SECONDS, MEMORY)


def headers_and(libraries: Sequence[Path]) -> tuple[Path, ...]:
    """The folders, and those of headers beside them."""
    headers = [folder.parent / "include" for folder in libraries]
    return (*libraries, *(folder for folder in headers if folder.is_dir()))


def nvcc(architecture: str) -> tuple[str, ...]:
    """nvcc with the host compiler, the standard and the one architecture that is built for."""
    toolkit, compiler = find_toolkit(), find_compiler()
    virtual = architecture.replace("sm_", "compute_")
    generation = ("-gencode", f"arch={virtual},code={architecture}")
    return (str(toolkit.nvcc), "-ccbin", str(compiler.path), standard(), *generation)


def driver_library() -> tuple[str, ...]:
    """The driver's own functions (tensor maps), where the toolkit has the stub to link them by."""
    return ("-lcuda",) if any(find_toolkit().root.glob("**/stubs/libcuda.so")) else ()


def standard() -> str:
    """C++20 where both compilers know it."""
    version = re.search(r"(\d+)\.\d+\.\d+", find_compiler().version)
    both = find_toolkit().release >= (12, 0) and version is not None and int(version[1]) >= 11
    return "-std=c++20" if both else "-std=c++17"
