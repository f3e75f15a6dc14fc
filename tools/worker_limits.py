"""What a worker is made of and may use: its program, environment, address space and memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tools.buffers import whole_pages
from tools.cache import native_binary
from tools.sandbox import Confinement

WorkerVariant: TypeAlias = Literal["release", "asan"]

_SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer")
_SANITIZER_SETTINGS = {
    "ASAN_OPTIONS": "detect_leaks=0:exitcode=99:color=never:quarantine_size_mb=16:external_symbolizer_path=:"
    "allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:color=never",
}
_GUARDS = 2 * (256 << 10)  # bytes around each tensor, as in worker.cpp
_OWN_SPACE = 512 << 20  # address space of the worker itself: libraries, first heap, stack
_THREAD_SPACE = (8 + 128) << 20  # address space that glibc reserves for a thread: stack and heap arena
_SANITIZER_MEMORY = 512 << 20  # resident shadow, quarantine and red zones


@dataclass(frozen=True)
class WorkerLimits:
    memory: int = 2 << 30
    """Bytes the kernel may use beside the arenas (scratch and its own allocations)."""
    output: int = 1 << 20
    """Bytes of stdout and stderr together before the worker is ended."""
    threads: int = 256
    start_timeout: float = 20.0
    """Seconds until the library is loaded (its constructors run in there)."""
    omp_threads: int | None = None
    """OMP_NUM_THREADS; None leaves libgomp's default (the cores in the affinity mask)."""


def program(variant: WorkerVariant) -> Path:
    """The worker's executable, compiled on first use."""
    return native_binary("worker", ("-ldl", *(_SANITIZE if variant == "asan" else ())))


def confinement(variant: WorkerVariant, limits: WorkerLimits, library: Path, spans: Iterable[int]) -> Confinement:
    """`spans` are the bytes of everything that it maps from the arenas."""
    sanitized = variant == "asan"
    mapped = sum(whole_pages(size) + _GUARDS for size in spans) + _GUARDS
    threads = limits.omp_threads or os.cpu_count() or 1
    space = limits.memory + mapped + _OWN_SPACE + _THREAD_SPACE * threads
    return Confinement(
        read_only=(library,), memory=None if sanitized else space, proc=sanitized, fixed_addresses=sanitized
    )


def environment(variant: WorkerVariant, limits: WorkerLimits) -> dict[str, str]:
    """All of the worker's environment."""
    threads = {} if limits.omp_threads is None else {"OMP_NUM_THREADS": str(limits.omp_threads)}
    return threads | (_SANITIZER_SETTINGS if variant == "asan" else {})


def resident_limit(variant: WorkerVariant, limits: WorkerLimits) -> int:
    """Bytes of private memory at which a worker is ended."""
    return limits.memory + (_SANITIZER_MEMORY if variant == "asan" else 0)
