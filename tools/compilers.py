"""Builds of several kernels at once, in the background: as many as there are cores and memory for."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tools.records import Kernel
from tools.targets.base import Build
from tools.tasks.user_code import available_memory

COMPILER_BYTES = 1 << 30
"""Memory that one compiler may need."""
KEPT = 256
"""Builds that nobody has asked for yet; of more the oldest are forgotten (they stay in the cache)."""


def compilers(cores: int, memory: int) -> int:
    """How many compilers may run at once on so many cores, with so many bytes of memory available."""
    return max(1, min(cores, memory // COMPILER_BYTES))


class Compilers:
    """Builds each kernel once, by `build`, which several threads may call. Close it."""

    def __init__(self, build: Callable[[Kernel], Build]) -> None:
        self._build = build
        self._builds: OrderedDict[str, Future[Build]] = OrderedDict()
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def begin(self, kernels: Sequence[Kernel]) -> None:
        """Start to build them; those under way are left alone. Does nothing once it is closed."""
        for kernel in kernels:
            self.take(kernel, keep=True)

    def begun(self, kernel: Kernel) -> Future[Build] | None:
        """Its build, if it is under way or was not asked for yet."""
        with self._lock:
            return self._builds.get(kernel.id)

    def take(self, kernel: Kernel, *, keep: bool = False) -> Future[Build]:
        """The build of the kernel, begun before or now. Its result may raise KernelError and InfrastructureError."""
        with self._lock:
            begun = self._builds.pop(kernel.id, None)
            if begun is None or begun.cancelled():
                self._pool = self._pool or ThreadPoolExecutor(compilers(os.cpu_count() or 1, available_memory()))
                begun = self._pool.submit(self._build, kernel)
            if keep:
                self._builds[kernel.id] = begun
                while len(self._builds) > KEPT:
                    self._builds.popitem(last=False)
            return begun

    def close(self) -> None:
        """Returns when nothing is built any more."""
        with self._lock:
            pool, self._pool = self._pool, None
            self._builds.clear()
        if pool is not None:
            pool.shutdown(cancel_futures=True)
