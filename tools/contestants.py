"""Who can be timed: the protocol, and the reference itself as one of them. A kernel is another (`tools.runner`)."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from tools.content import Content
from tools.hardware import instruments
from tools.reference import Reference
from tools.tasks.user_code import user_call

SETTLE_SECONDS = 0.001
"""Pause after the reference ran in this process: its BLAS threads spin on for a while and would disturb a timing."""


class Contestant(Protocol):
    """Something that computes the task and can be timed."""

    def call(self, content: Content) -> None:
        """Compute `content` once with cold caches, and keep the reading."""
        ...

    def seconds(self, workload: int) -> list[float]:
        """Accepted time of every kept call on the workload."""
        ...

    def drop_readings(self, workload: int | None = None) -> None:
        """Forget all times, or those of one workload (the first calls only warm up)."""
        ...


class BaselineRunner:
    """The reference itself as a contestant, in this process."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._seconds: dict[int, list[float]] = {}

    def call(self, content: Content) -> None:
        work = self._reference.baseline_call(content.workload, content.inputs)
        flush = instruments().flush
        for value in content.inputs.values():
            if isinstance(value, np.ndarray):
                flush(value)
        source = self._reference.source
        with user_call(source.files, f"The reference in {source.entry} failed while it was timed"):
            begin = time.perf_counter()
            work()
            elapsed = time.perf_counter() - begin
        self._seconds.setdefault(content.workload, []).append(elapsed)
        time.sleep(SETTLE_SECONDS)

    def seconds(self, workload: int) -> list[float]:
        return list(self._seconds.get(workload, ()))

    def drop_readings(self, workload: int | None = None) -> None:
        if workload is None:
            self._seconds.clear()
        else:
            self._seconds.pop(workload, None)
