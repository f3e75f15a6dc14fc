"""How much of the machine other programs take: times measured beside them read long and say little.

A kernel can't hide behind this. It starts no process, and what its own threads use is counted as the judge's own.
Not covered: other programs that wait for memory without using a core, and what a hypervisor does not report as stolen.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from tools.errors import InfrastructureError

BUSY = 0.2
"""Cores used by others (1.0 is one whole core) from which times are not worth keeping."""
WINDOW = 0.25
"""Seconds of one look; the kernel counts in hundredths of a second."""
PATIENCE = 10.0
"""Seconds that a judge waits in all for a machine that other programs keep busy, until it was quiet once."""
PATIENCE_VARIABLE = "WARPSMITH_PATIENCE"
_STAT = Path("/proc/stat")
_TICKS = os.sysconf("SC_CLK_TCK")


def patience_seconds() -> float:
    """PATIENCE, or what the environment says instead. Raises InfrastructureError for what is no number of seconds."""
    given = os.environ.get(PATIENCE_VARIABLE)
    try:
        seconds = PATIENCE if given is None else float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise InfrastructureError(f"{PATIENCE_VARIABLE}={given} is no number of seconds", "Unset it, or give one.")
    return seconds


class Neighbours:
    """Watches from its creation on. `own_seconds` is the CPU time of the judge and its workers so far."""

    def __init__(self, own_seconds: Callable[[], float]) -> None:
        self._own_seconds = own_seconds
        self._begin = time.perf_counter()
        self._busy = _busy_seconds()
        self._own = own_seconds()

    def cores(self) -> float:
        """Cores that others used since, on average; stolen time counts. 0 where the system does not say."""
        elapsed = time.perf_counter() - self._begin
        others = (_busy_seconds() - self._busy) - (self._own_seconds() - self._own)
        return max(0.0, others - 2 / _TICKS) / max(elapsed, 1e-3)


class Patience:
    """How many seconds may be waited for a quiet machine, over many races. A machine that was quiet once gets it all
    back; one that is never quiet is not waited for again and again."""

    def __init__(self, seconds: float) -> None:
        self._all = self._left = seconds

    def restore(self) -> None:
        self._left = self._all

    def wait(self, own_seconds: Callable[[], float], most: float) -> bool:
        """Wait until others are quiet for a look, at most `most` seconds. False when no patience was left to wait."""
        if self._left <= 0:
            return False
        begin = time.monotonic()
        deadline = begin + min(most, self._left)
        while time.monotonic() < deadline:
            neighbours = Neighbours(own_seconds)
            time.sleep(WINDOW)
            if neighbours.cores() < BUSY:
                break
        self._left -= time.monotonic() - begin
        return True


def _busy_seconds() -> float:
    """Of all cores since boot: user, nice, system, interrupts and stolen time, by proc(5)."""
    try:
        fields = _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = (int(field) for field in fields[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS
