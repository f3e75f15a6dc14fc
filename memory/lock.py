"""Who writes into a run folder: one process at a time.

The lock is the operating system's (`flock`), so it ends with its process, however that ends: none is ever left behind.
The file says who holds it, for a person. Not covered: a network file system that keeps locks to itself on each machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory.files import RunFolderError, write_failure

LOCK_NAME = "run.lock"


class FolderInUse(RunFolderError):
    """Another process writes into the folder."""


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Nobody else writes into `folder` meanwhile. Raises RunFolderError when another process does already, and when
    the file system can't lock."""
    path = folder / LOCK_NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise write_failure(path, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _in_use(folder, path) from error
        except OSError as error:
            message = f"{folder} can't be kept for one process: {error.strerror}"
            raise RunFolderError(message, "Put the runs on a file system that can lock files, with --runs.") from error
        _write(descriptor, json.dumps(_holder()))
        yield
        _write(descriptor, "")
    finally:
        os.close(descriptor)


def _holder() -> dict[str, object]:
    return {"pid": os.getpid(), "started": _started(os.getpid()), "host": socket.gethostname(), "since": time.time()}


def _started(pid: int) -> int | None:
    """When that process began, in clock ticks since the machine did: with the pid it names a process for good."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _write(descriptor: int, text: str) -> None:
    """What the file says; only for people, so a full disk is no reason to stop here."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    except OSError:
        return


def _in_use(folder: Path, path: Path) -> FolderInUse:
    try:
        holder = json.loads(path.read_bytes())
        pid, host = int(holder["pid"]), str(holder["host"])
        here = host == socket.gethostname()
        known = not here or _started(pid) == holder["started"]
    except (OSError, ValueError, KeyError, TypeError):
        known = False
    if not known:
        return FolderInUse(f"the run {folder.name} is in use by another process", "Stop that one first.")
    who = f"process {pid}" if here else f"process {pid} on {host}"
    return FolderInUse(f"the run {folder.name} is in use by {who}", f"Stop it first: kill -INT {pid}")
