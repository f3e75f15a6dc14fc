"""What a power cut leaves of a run folder: only what was flushed is sure, and any part of the rest.

`Flushes` wraps `os.fsync` in the process that is to be cut and notes what became durable: a file's length and its name,
a folder's names. `cut` then takes away, by chance, what nobody flushed: tails of files, whole contents (the name stays,
as with delayed allocation), and names. Of SQLite's log everything after what it already copied into the database may
go, which is what `synchronous=NORMAL` allows.

Not simulated: a replaced file that is the old one again, a removed file that is back, a folder whose own name is lost
although something in it was flushed (no journaling file system does that).
"""

from __future__ import annotations

import json
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

_FRAME_HEADER, _LOG_HEADER = 24, 32
_ATTEMPTED_AT = 128
"""In SQLite's shared index: how many frames of its log may be in the database already (nBackfillAttempted)."""


class Flushes:
    """Notes what `os.fsync` made durable, one line each, in `path`."""

    def __init__(self, path: Path) -> None:
        self._log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._fsync = os.fsync

    def install(self) -> None:
        """From now on; for a process that ends with the run."""
        os.fsync = self._note  # type: ignore[assignment]

    def _note(self, descriptor: int) -> None:
        self._fsync(descriptor)
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            names = {entry.name: entry.inode() for entry in os.scandir(path)}
            line = {"folder": found.st_ino, "names": names}
        else:
            line = _file(Path(path), found)
        os.write(self._log, (json.dumps(line) + "\n").encode())


def cut(folder: Path, flushes: Path, random: Random) -> None:
    """Take from `folder` what a power cut could take, in place. flushes: of all processes since the last one."""
    sizes, names = _durable(flushes)
    for path in [*folder.rglob("*")]:
        if path.is_symlink():
            _maybe(random, path)
        elif path.is_file() and not path.name.startswith("state.sqlite") and path.name != "run.lock":
            inode = path.stat().st_ino
            if (path.parent.stat().st_ino, path.name, inode) not in names and random.random() < 0.3:
                path.unlink()
            else:
                _shorten(path, sizes.get(inode, 0), random)
    _cut_log(folder / "state.sqlite", random)


def settle(folder: Path, flushes: Path) -> None:
    """Note that all there is now is durable, as after a restart of the machine."""
    with flushes.open("a") as log:
        for path in folder.rglob("*"):
            if not path.is_symlink() and path.is_file():
                log.write(json.dumps(_file(path, path.stat())) + "\n")


def _file(path: Path, found: os.stat_result) -> dict[str, Any]:
    """A file's length, and its name in the folder that it was flushed under."""
    folder = path.parent.stat().st_ino
    return {"folder": folder, "names": {path.name: found.st_ino}, "inode": found.st_ino, "size": found.st_size}


def _durable(flushes: Path) -> tuple[dict[int, int], set[tuple[int, str, int]]]:
    """Length by inode; names by their folder's inode, with the inode that they lead to. A folder that moves keeps what
    it holds."""
    sizes: dict[int, int] = {}
    names: set[tuple[int, str, int]] = set()
    for line in flushes.read_text().splitlines():
        noted = json.loads(line)
        names |= {(noted["folder"], name, inode) for name, inode in noted["names"].items()}
        if "inode" in noted:
            sizes[noted["inode"]] = noted["size"]
    return sizes, names


def _maybe(random: Random, path: Path) -> None:
    if random.random() < 0.3:
        path.unlink()


def _shorten(path: Path, durable: int, random: Random) -> None:
    """To some length from what is durable on; or as long as it was, with nothing in the lost part."""
    size = path.stat().st_size
    kept = random.choice((durable, size, random.randint(min(durable, size), size)))
    if kept < size:
        os.truncate(path, kept)
        if random.random() < 0.3:
            os.truncate(path, size)


def _cut_log(database: Path, random: Random) -> None:
    log, index = database.with_name(f"{database.name}-wal"), database.with_name(f"{database.name}-shm")
    if not log.exists() or log.stat().st_size < _LOG_HEADER:
        return
    with log.open("rb") as file:
        page = struct.unpack(">I", file.read(_LOG_HEADER)[8:12])[0]
    copied = 0
    if index.exists():
        header = index.read_bytes()[_ATTEMPTED_AT : _ATTEMPTED_AT + 4]
        copied = struct.unpack("=I", header)[0] if len(header) == 4 else 0
    least = _LOG_HEADER + copied * (_FRAME_HEADER + page) if copied else 0
    size = log.stat().st_size
    os.truncate(log, random.randint(min(least, size), size))
    index.unlink(missing_ok=True)


def leftovers(folder: Path) -> list[Path]:
    """Drafts and temporary files that nobody will finish."""
    return sorted(path for path in folder.rglob(".*") if path.is_file() or path.is_dir())


def broken_json(paths: Iterable[Path]) -> list[Path]:
    """Files that hold no JSON."""
    broken = []
    for path in paths:
        try:
            json.loads(path.read_bytes())
        except ValueError:
            broken.append(path)
    return broken
