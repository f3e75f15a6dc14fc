"""Keeps the cache below a size: what was not used for longest goes first, and nothing that may be in use.

Safe with any number of processes. Not covered: a single entry that is larger than the whole size stays for an hour.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.errors import InfrastructureError

MEGABYTES = 2048
"""The size, unless the environment says another."""
SIZE_VARIABLE = "WARPSMITH_CACHE_MB"
IN_USE_SECONDS = 3600.0
"""An entry is asked for whenever it is needed, and no evaluation takes so long."""
ROOM = 0.8
"""Fraction of the size that is left when entries were removed, so that it is not done again at once."""
EVERY = 50
"""New entries of a process from one look at the sizes to the next; the first entry is followed by one."""
MAKING = ".making-"
"""Begins the name of a folder that is no entry: not yet, or no longer."""
_LOCK = ".lock"

_made = itertools.count()


def size_limit() -> int:
    """Bytes that the cache may take. Raises InfrastructureError for a setting that is no number."""
    given = os.environ.get(SIZE_VARIABLE, str(MEGABYTES))
    if not given.isdecimal():
        raise InfrastructureError(f"{SIZE_VARIABLE}={given} is no number of megabytes", "Unset it, or give one.")
    return int(given) << 20


def used(entry: Path) -> bool:
    """Whether there is such an entry; it then stays for some time."""
    with _locked(entry.parent, fcntl.LOCK_SH):
        try:
            os.utime(entry)
        except PermissionError:  # another user's cache, which that user keeps small
            return entry.is_dir()
        except OSError:
            return False
    return True


def keep_small(cache: Path) -> None:
    """To be called when an entry was made: remove old ones when there is too much."""
    if next(_made) % EVERY == 0:
        evict(cache, size_limit())


def evict(cache: Path, limit: int) -> None:
    """Remove entries of `cache`, the least recently used first, until it has room again."""
    entries = sorted(_entries(cache))
    total = sum(entry.size for entry in entries)
    if total <= limit:
        return
    for entry in entries:
        if total <= ROOM * limit or time.time() - entry.used < IN_USE_SECONDS:
            return
        if _remove(entry.path):
            total -= entry.size


class _Entry(NamedTuple):
    used: float
    size: int
    path: Path


def _entries(cache: Path) -> Iterator[_Entry]:
    for path in cache.glob("*/*"):
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.name.startswith("."):
                yield _Entry(path.stat().st_mtime, _size(path), path)


def _size(folder: Path) -> int:
    """Bytes on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def _remove(path: Path) -> bool:
    """Unless it was used a moment ago."""
    with contextlib.suppress(OSError), _locked(path.parent, fcntl.LOCK_EX):
        if time.time() - path.stat().st_mtime < IN_USE_SECONDS:
            return False
        away = Path(tempfile.mkdtemp(prefix=MAKING, dir=path.parent))
        path.rename(away / path.name)
        shutil.rmtree(away, ignore_errors=True)
        return True
    return False


@contextlib.contextmanager
def _locked(folder: Path, mode: int) -> Iterator[None]:
    """Hold the folder's lock. Without one where it can't be had: a folder that is missing, or is not ours to write."""
    descriptor = None
    with contextlib.suppress(OSError):
        descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, mode)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
