"""Where the vendor's libraries for the device are: with the toolkit, among the system's, or in a Python package.

Not covered: which of them a task allows (`tools.targets.cuda`), and several releases of one library beside each other:
the first that is found counts.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tools.process import run_command
from tools.targets.cuda_toolkit import find_toolkit
from tools.toolchain import SYSTEM_PATHS

LIBRARIES: Final = ("cublasLt", "cublas", "cudnn", "cufft", "curand", "cusparse", "cusolver")
"""Those that a task may allow; their functions begin with their names."""
_OF_TOOLKIT = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
_KNOWN_HEADERS = (Path("/usr/include"), Path("/usr/local/include"))
"""Named once more, they would come before those of the host's compiler that build on them."""
_LINKER_CACHE = re.compile(r"=> (/\S+)")


@dataclass(frozen=True)
class VendorLibrary:
    """A shared library of the vendor's."""

    name: str
    """As `cublas`."""
    file: Path
    """Its folder need not be one that the linker knows."""

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def link(self) -> tuple[str, ...]:
        """Words for nvcc: its headers where they lie beside it, itself, and where it is when the kernel is loaded."""
        headers = self.folder.parent / "include"
        known = headers in _KNOWN_HEADERS or self.folder.is_relative_to(find_toolkit().root)
        beside = headers.is_dir() and not known
        return (
            *(("-isystem", str(headers)) if beside else ()),
            *(f"-L{self.folder}", f"-l:{self.file.name}", f"-Xlinker=-rpath,{self.folder}"),
        )


@cache
def find_library(name: str) -> VendorLibrary | None:
    """The library, None where this machine lacks it."""
    pattern = re.compile(rf"lib{name}\.so(\.\d+)*")
    for folder in _folders(name):
        files = [path for path in sorted(folder.glob(f"lib{name}.so*")) if pattern.fullmatch(path.name)]
        if files:
            return VendorLibrary(name, folder.resolve() / files[0].name)  # a sandbox shows folders, not links to them
    return None


def link_words(names: Sequence[str]) -> tuple[str, ...]:
    """What nvcc is told for these; the bare name of one that is not there, for the linker to complain of."""
    found = [(name, find_library(name)) for name in names]
    return tuple(word for name, library in found for word in (library.link if library else (f"-l{name}",)))


def folders(names: Sequence[str] = LIBRARIES) -> tuple[Path, ...]:
    """What a confined process must see beside the system's folders to load these."""
    found = [library.folder for library in map(find_library, names) if library is not None]
    packages = [folder for folder in found if not any(folder.is_relative_to(system) for system in SYSTEM_PATHS)]
    return tuple(dict.fromkeys(packages))


def _folders(name: str) -> Iterator[Path]:
    root = find_toolkit().root
    yield from (root / part for part in _OF_TOOLKIT)
    yield from _known_to_the_linker(name)
    for package in _packages():
        yield from sorted(package.glob("*/lib"))


def _known_to_the_linker(name: str) -> Iterator[Path]:
    yield from dict.fromkeys(place.parent for place in _linker_cache() if place.name.startswith(f"lib{name}.so"))


@cache
def _linker_cache() -> tuple[Path, ...]:
    program = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    said = run_command([program, "-p"], timeout=10).stdout if program is not None else ""
    return tuple(Path(place) for line in said.splitlines() for place in _LINKER_CACHE.findall(line))


def _packages() -> Sequence[Path]:
    """The folder that the vendor's Python packages share."""
    spec = importlib.util.find_spec("nvidia")
    return [Path(each).resolve() for each in (spec.submodule_search_locations or ())] if spec is not None else []
