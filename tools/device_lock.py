"""The lock that keeps timings apart, across processes and users of the machine.

Not covered: programs that are not ours; the intervals and the fresh sessions answer to those.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tools.errors import InfrastructureError

LOCK_FOLDER = Path("/tmp")
LOCK_PATIENCE = 900.0
"""Seconds to wait for another run's timing before giving up."""

_held = threading.local()


@contextlib.contextmanager
def device_lock(device: str = "cpu", *, shared: bool = False, patience: float = LOCK_PATIENCE) -> Iterator[None]:
    """Hold the device across processes and users: alone for timings, `shared` for other work that would disturb them.

    A gate taken before the lock itself keeps a stream of shared holders from starving a timing. Raises
    InfrastructureError when it is not had within `patience` seconds. Nested use in one thread holds it once.
    """
    held = getattr(_held, "device", None)
    if held is not None:
        if held == (device, True) and not shared:
            raise RuntimeError("a shared device can't be taken alone without letting it go first")
        yield
        return
    with contextlib.ExitStack() as stack:
        deadline = time.monotonic() + patience
        with contextlib.ExitStack() as gate:
            gate.enter_context(_flocked(f"{device}.gate", fcntl.LOCK_EX, deadline))
            stack.enter_context(_flocked(device, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, deadline))
        _held.device = (device, shared)
        try:
            yield
        finally:
            _held.device = None


@contextlib.contextmanager
def _flocked(name: str, mode: int, deadline: float) -> Iterator[None]:
    descriptor = _open_lock(LOCK_FOLDER / f"warpsmith-{name}.lock")
    try:
        while True:
            try:
                fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"another process held the {name} device for too long", "End the other run or wait for it."
                    ) from None
                time.sleep(0.003)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    """Open a lock file that any user may have made. `O_CREAT` on another user's file in a sticky folder is refused by
    the kernel (fs.protected_regular), so an existing file is opened without it."""
    for _ in range(3):
        with contextlib.suppress(FileNotFoundError):
            return _checked(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), path)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(descriptor, 0o644)
            return descriptor
    raise InfrastructureError(f"the device lock {path} can't be opened", "Remove the file.")


def _checked(descriptor: int, path: Path) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InfrastructureError(f"the device lock {path} is not a regular file", "Remove it.")
    return descriptor
