"""Stands above a program: when the program ends, or the one who asked for it does, however that is, nothing is left.

    python -P -m tools.keeper PARENT PROGRAM ARG...

A process that is killed can't tidy up. What it started goes on (a parent's death signal does not reach grandchildren:
the compiler proper below its driver, a program below a profiler), and its temporary files stay. So this process stands
between PARENT and PROGRAM, inherits all orphans below it, gives PROGRAM a temporary folder of its own, and at the end
kills whatever still runs and removes the folder. It ends as PROGRAM did.

Not covered: a keeper that is itself killed leaves orphans, and its folder until the next keeper starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tools.process import descendants

STALE_SECONDS = 600.0
"""No run of an instrument takes so long."""
GONE_SECONDS = 10.0
"""How long killed processes may take to be gone; one that is stuck in the kernel may take for ever."""
_FOLDER = "warpsmith-judge-"
_LEFT_BY_PERF = "perf-vdso.so-*"
"""perf writes these to /tmp, whatever TMPDIR says, and leaves them there when it is killed."""
_PDEATHSIG, _SUBREAPER = 1, 36  # prctl(2)
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def kept(argv: list[str]) -> list[str]:
    """`argv` below a keeper that is started by this process."""
    return [sys.executable, "-P", "-m", "tools.keeper", str(os.getpid()), *argv]


class Folder:
    """A temporary folder that is locked as long as its owner lives; the kernel lets go of a lock that nobody holds."""

    def __init__(self, above: Path) -> None:
        """OSError when there is no room."""
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=above)).resolve()
            self._lock = _locked(self.path)
            if self._lock is not None:
                return

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_leftovers(above: Path, of_perf: Path = Path("/tmp")) -> None:
    """Remove the folders of owners that are gone, and what killed instruments of this user's left long ago."""
    for path in above.glob(f"{_FOLDER}*"):
        lock = _locked(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
    for path in of_perf.glob(_LEFT_BY_PERF):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > STALE_SECONDS:
                path.unlink()


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock; None when it is another's, or the folder is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.is_dir():  # else it was removed before we had the lock
            return descriptor
    os.close(descriptor)
    return None


def keep(argv: list[str], folder: Path) -> int | None:
    """Run `argv` with TMPDIR set to `folder` until it ends: its wait status, or None when we are told to end. Nothing
    that it started is left."""
    program = os.posix_spawnp(argv[0], argv, os.environ | {"TMPDIR": str(folder)}, setsigmask=())
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # so that readers of the program's pipes see it end
        os.dup2(null, number)
    status = None
    while status is None and signal.sigwait(_SIGNALS) == signal.SIGCHLD:
        status = _reaped().get(program)
    deadline = time.monotonic() + GONE_SECONDS
    while (pids := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reaped()
        time.sleep(0.001)
    return status


def _reaped() -> dict[int, int]:
    """Wait status of every child that has ended."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    return ended


def main() -> None:
    """Never returns."""
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    libc = ctypes.CDLL(None)
    libc.prctl(_PDEATHSIG, signal.SIGTERM)
    libc.prctl(_SUBREAPER, 1)
    if os.getppid() != parent:  # it died before the lines above
        sys.exit(0)
    above = Path(tempfile.gettempdir())
    remove_leftovers(above)
    folder = Folder(above)
    status = keep(argv, folder.path)
    folder.remove()
    _end_as(status)


def _end_as(status: int | None) -> None:
    if status is None or not os.WIFSIGNALED(status):
        os._exit(128 + signal.SIGTERM if status is None else os.waitstatus_to_exitcode(status))
    number = os.WTERMSIG(status)
    with contextlib.suppress(OSError):  # SIGKILL's handler can't be set
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    main()
