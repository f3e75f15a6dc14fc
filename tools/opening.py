"""What surrounds the opening of a task: a limit on the memory of the task's own code, and how long each part took."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable, Iterator

import psutil

MEMORY_SHARE = 0.9
"""Fraction of the available memory that the task's own code may take."""


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Let an allocation without end fail as a MemoryError here, before the machine runs out.

    Only while a task is opened: the limit is inherited, and AddressSanitizer's workers can't live with it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = psutil.Process().memory_info().rss
    allowed = used + int(MEMORY_SHARE * psutil.virtual_memory().available)
    if soft == resource.RLIM_INFINITY or allowed < soft:
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


class Laps:
    """Seconds by name, each announced when it begins."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def lap(self, name: str) -> Iterator[None]:
        self._progress(name)
        begin = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - begin
