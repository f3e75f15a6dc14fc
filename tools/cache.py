"""The cache folder: helper binaries and builds, addressed by what they were made from.

Entries are whole folders that appear and go by one rename, so a reader never sees half of one and two writers can't
clash. Together they are kept below a size (`tools.eviction`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.errors import InfrastructureError
from tools.eviction import MAKING, keep_small, used
from tools.process import run_command
from tools.toolchain import find_compiler

NATIVE = Path(__file__).parent / "native"
ABANDONED_SECONDS = 3600.0
"""Nothing is in the making for so long."""
_BUILD_SECONDS = 120


def cache_dir() -> Path:
    """$WARPSMITH_CACHE, else $XDG_CACHE_HOME/warpsmith, else ~/.cache/warpsmith; created (mode 0700) when missing.

    The path is absolute and free of links. InfrastructureError when it can't be created.
    """
    named, xdg = os.environ.get("WARPSMITH_CACHE"), os.environ.get("XDG_CACHE_HOME")
    path = Path(named) if named else (Path(xdg) if xdg else Path.home() / ".cache") / "warpsmith"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path.resolve(strict=True)
    except OSError as error:
        raise InfrastructureError(
            f"the cache folder {path} can't be used: {error.strerror}", "Set WARPSMITH_CACHE to a folder you can write."
        ) from error


def stored(kind: str, identity: Sequence[str], make: Callable[[Path], None]) -> Path:
    """The folder of `kind` made from `identity`: the one in the cache, else what `make(folder)` fills now.

    What `make` raises passes through and leaves nothing. InfrastructureError when the folder can't be written.
    """
    entry = entry_of(kind, identity)
    if used(entry):
        return entry
    try:
        entry.parent.mkdir(exist_ok=True)
        _sweep(entry.parent)
        making = Path(tempfile.mkdtemp(prefix=MAKING, dir=entry.parent))
    except OSError as error:
        raise _unwritable(entry, error) from error
    try:
        make(making)
        making.rename(entry)
    except OSError as error:
        if not entry.is_dir():  # else another process was first, and its entry is as good
            raise _unwritable(entry, error) from error
    finally:
        shutil.rmtree(making, ignore_errors=True)
    keep_small(entry.parent.parent)
    return entry


def entry_of(kind: str, identity: Sequence[str]) -> Path:
    """Where the folder of `kind` made from `identity` lies, or will."""
    return cache_dir() / kind / hashlib.sha256("\0".join(identity).encode()).hexdigest()[:32]


@functools.cache
def _sweep(folder: Path) -> None:
    """Remove what processes that were killed left half made; once a process."""
    for path in folder.glob(f"{MAKING}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def native_binary(name: str, extra_flags: tuple[str, ...] = ()) -> Path:
    """`tools/native/<name>.cpp` compiled with g++ -O2 -std=c++20 and `extra_flags`, built on first use.

    The key covers the source,
    the headers in tools/native, the flags, the compiler and the CPU. A shared object is made by
    passing `("-shared", "-fPIC", …)`. InfrastructureError with the compiler's words when it fails or g++ is missing.
    """
    compiler = find_compiler()
    sources = [NATIVE / f"{name}.cpp", *sorted(NATIVE.glob("*.hpp"))]

    def build(folder: Path) -> None:
        command = [
            str(compiler.path),
            "-std=c++20",
            "-O2",
            *extra_flags,
            str(NATIVE / f"{name}.cpp"),
            "-o",
            str(folder / name),
        ]
        result = run_command(command, timeout=_BUILD_SECONDS)
        if not result.ok:
            raise InfrastructureError(
                f"the helper {name} does not compile: {result.stderr[:2000]}", "It needs g++ 11 or newer."
            )

    identity = [name, *extra_flags, compiler.identity, *(path.read_text() for path in sources)]
    return stored("native", identity, build) / name


def _unwritable(path: Path, error: OSError) -> InfrastructureError:
    return InfrastructureError(
        f"the cache folder {path.parent} can't be written: {error.strerror}",
        "Free some space or set WARPSMITH_CACHE to a folder you can write.",
    )
