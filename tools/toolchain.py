"""The C++ compiler of this machine: which one, and which folders it reads."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.errors import InfrastructureError
from tools.process import run_command

SYSTEM_PATHS = tuple(
    map(
        Path,
        ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/nix/store", "/gnu"),
    )
)
"""Where programs and libraries live; read-only for everything that is confined, where they exist."""


@dataclass(frozen=True)
class Compiler:
    """A g++ that works."""

    path: Path
    version: str
    """First line of `--version`."""
    cpu: str
    """The machine's CPU model and feature flags, which `-march=native` depends on."""
    folders: tuple[Path, ...]
    """What it needs to read beyond SYSTEM_PATHS (a compiler under /opt or in an environment)."""

    @property
    def identity(self) -> str:
        return f"{self.path} {self.version} {self.cpu}"


@cache
def find_compiler() -> Compiler:
    """g++ on the PATH, whatever $CXX says: other compilers take other flags. InfrastructureError when there is none."""
    found = shutil.which("g++")
    if found is None:
        raise InfrastructureError("no C++ compiler: `g++` is not on the PATH", "Install g++ 11 or newer.")
    path = Path(found)
    version = run_command([found, "--version"], timeout=30)
    if not version.ok:
        raise InfrastructureError(f"{found} does not run: {version.stderr.strip()[:200]}", "Install g++ 11 or newer.")
    if not version.stdout.strip():
        raise InfrastructureError(f"{found} does not say which version it is", "Install g++ 11 or newer.")
    return Compiler(path, version.stdout.strip().splitlines()[0], _cpu(), _folders(path))


def _folders(compiler: Path) -> tuple[Path, ...]:
    """The compiler's prefix, as called and as resolved, where it lies outside the system's folders."""
    prefixes = dict.fromkeys(path.parent.parent for path in (compiler, compiler.resolve()))
    return tuple(prefix for prefix in prefixes if not any(prefix.is_relative_to(system) for system in SYSTEM_PATHS))


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    wanted = ("model name", "flags", "CPU implementer", "CPU part", "Features")
    return " ".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))
