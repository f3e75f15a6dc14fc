"""What this machine can do, measured: bandwidth and multiply-add peaks, and the physical limit.

Peaks are upper bounds used to refuse impossible times, so every figure is the best of many short runs and of several
access patterns. Not covered: matrix units (AMX, SME), whose peak is left unknown rather than guessed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import mmap
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from tools.cache import cache_dir, native_binary
from tools.device_lock import device_lock
from tools.records import Policy, Record
from tools.toolchain import find_compiler

INSTRUMENT_FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")
PATTERNS = ("read", "read_streams", "copy", "stream_copy", "write", "stream_write")
FOOTPRINTS = ((512 << 10, 12), (2 << 20, 10), (8 << 20, 6), (32 << 20, 3))
"""Bytes of a buffer and how often each pattern runs on it."""
BRIEF_FOOTPRINTS = ((2 << 20, 8),)
PEAK_SECONDS, BRIEF_PEAK_SECONDS = 0.15, 0.02
FLOATS = ("float16", "float32", "float64")
NARROWED: dict[Policy, dict[str, str]] = {
    "strict": {},
    "tf32": {"float32": "tf32"},
    "mixed": {"float32": "bfloat16"},
}
"""The format in which arrays of a dtype may be multiplied, where the policy allows another than their own."""


class Hardware(Record):
    """Measured figures of one machine: rates in bytes/s and operations/s with every core busy."""

    model: str
    cores: int
    memory_bytes: int
    cache_bytes: int
    compiler: str
    read_bandwidth: float
    copy_bandwidth: float
    write_bandwidth: float
    peak_flops: dict[str, float]
    """By dtype (float64, float32 and, where the processor has it, float16), and by tf32, bfloat16 and float16 where
    units that multiply matrices were measured; a multiply-add counts 2."""
    matrix_units: bool = False
    """It multiplies matrices of narrow floats in units of their own, whose peak was not measured."""

    @property
    def bandwidth(self) -> float:
        """The best rate at which bytes move, over reading, copying and writing past the caches."""
        return max(self.read_bandwidth, self.copy_bandwidth, self.write_bandwidth)

    def peak(self, dtype: str) -> float | None:
        """Multiply-add peak for a floating dtype or tf32; None where nothing was measured for it."""
        if dtype in ("float16", "tf32") and dtype not in self.peak_flops and not self.matrix_units:
            return self.peak_flops.get("float32")
        return self.peak_flops.get(dtype)

    def best_of(self, other: Hardware) -> Hardware:
        """The higher of each figure: a peak seen once is possible."""
        return self.model_copy(
            update={
                "read_bandwidth": max(self.read_bandwidth, other.read_bandwidth),
                "copy_bandwidth": max(self.copy_bandwidth, other.copy_bandwidth),
                "write_bandwidth": max(self.write_bandwidth, other.write_bandwidth),
                "peak_flops": {
                    name: max(self.peak_flops.get(name, 0.0), other.peak_flops.get(name, 0.0))
                    for name in self.peak_flops | other.peak_flops
                },
                "matrix_units": self.matrix_units and other.matrix_units,
            }
        )


def arithmetic_of(dtypes: Iterable[str], policy: Policy) -> str:
    """In what the arithmetic on arrays of these dtypes may be done: the narrowest floating one, or the format that the
    policy allows instead; `none` without floats."""
    present = set(dtypes)
    narrowest = next((name for name in ("bfloat16", *FLOATS) if name in present), "none")
    return NARROWED[policy].get(narrowest, narrowest)


def limit_seconds(bytes_moved: float, flops: float | None, dtype: str, hardware: Hardware) -> float:
    """The shortest time the measured roofs allow: `max(bytes / bandwidth, flops / peak of dtype)`; at least 1 ns."""
    seconds = bytes_moved / hardware.bandwidth
    peak = hardware.peak(dtype)
    if flops is not None and peak is not None:
        seconds = max(seconds, flops / peak)
    return max(seconds, 1e-9)


@dataclass(frozen=True)
class Instruments:
    """The native measuring library, loaded into this process."""

    library: ctypes.CDLL

    def flush(self, array: np.ndarray) -> None:
        """Evict the array's memory from every cache of the machine."""
        self.flush_range(array.ctypes.data, array.nbytes)

    def flush_range(self, address: int, size: int) -> None:
        """Evict `size` bytes at `address`."""
        if size:
            self.library.instrument_flush(address, size)

    def share_of_floor(
        self, actual: np.ndarray, oracle: np.ndarray, length: int, floor: float, quiet: float
    ) -> float | None:
        """Largest |actual - oracle| / (floor x scale) over slices of `length` elements; None for what it can't look at.

        Scale is the largest of |oracle|, its slice's root mean square and `quiet` times the whole array's. inf where
        anything is not finite. `actual` is float32 or float64, `oracle` float64, both C-contiguous.
        """
        if oracle.dtype != np.float64 or not (actual.flags.c_contiguous and oracle.flags.c_contiguous):
            return None
        if actual.dtype not in (np.float32, np.float64) or actual.size != oracle.size:
            return None
        function = getattr(self.library, f"instrument_share_of_floor{actual.dtype.itemsize * 8}")
        return float(function(actual.ctypes.data, oracle.ctypes.data, actual.size, length, floor, quiet))

    def bandwidth(self, pattern: str, target: int, source: int, size: int, repeats: int) -> float:
        """Bytes per second of `pattern` on two buffers of `size` bytes at page-aligned addresses."""
        return float(self.library.instrument_bandwidth(PATTERNS.index(pattern), target, source, size, repeats))

    def peak(self, dtype: str, seconds: float) -> float:
        """Multiply-add operations per second with all cores; 0 where the processor can't compute in `dtype`."""
        return float(getattr(self.library, f"instrument_peak_{dtype}")(seconds))


@functools.cache
def instruments() -> Instruments:
    """Build (once per machine) and load the instruments. Raises InfrastructureError when g++ fails."""
    library = ctypes.CDLL(str(native_binary("instruments", INSTRUMENT_FLAGS)))
    library.instrument_flush.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    library.instrument_flush.restype = None
    library.instrument_bandwidth.argtypes = (
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
    )  # fmt: skip
    library.instrument_bandwidth.restype = ctypes.c_double
    for bits in (32, 64):
        share = getattr(library, f"instrument_share_of_floor{bits}")
        share.argtypes = (ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_size_t] * 2, *[ctypes.c_double] * 2)
        share.restype = ctypes.c_double
    for dtype in FLOATS:
        function = getattr(library, f"instrument_peak_{dtype}")
        function.argtypes = (ctypes.c_double,)
        function.restype = ctypes.c_double
    return Instruments(library)


def measure_hardware(*, brief: bool = False) -> Hardware:
    """Measure now, for about a second (`brief`: a tenth of that); the caller holds the device."""
    tool = instruments()
    footprints = BRIEF_FOOTPRINTS if brief else FOOTPRINTS
    largest = max(size for size, _ in footprints)
    best = dict.fromkeys(PATTERNS, 0.0)
    with mmap.mmap(-1, largest) as target, mmap.mmap(-1, largest) as source:
        views = [np.frombuffer(buffer, dtype=np.uint8) for buffer in (target, source)]
        for view in views:
            view[::4096] = 1
        addresses = [view.ctypes.data for view in views]
        for size, repeats in footprints:
            for pattern in PATTERNS:
                best[pattern] = max(best[pattern], tool.bandwidth(pattern, addresses[0], addresses[1], size, repeats))
        del views, view
    peaks = {dtype: tool.peak(dtype, BRIEF_PEAK_SECONDS if brief else PEAK_SECONDS) for dtype in FLOATS}
    return Hardware(
        model=cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        cache_bytes=_last_level_cache(),
        compiler=find_compiler().version,
        read_bandwidth=max(best["read"], best["read_streams"]),
        copy_bandwidth=max(best["copy"], best["stream_copy"]),
        write_bandwidth=max(best["write"], best["stream_write"]),
        peak_flops={name: value for name, value in peaks.items() if value > 0},
    )


def hardware() -> Hardware:
    """The machine's figures, kept in the cache folder by processor, cores and compiler.

    Measured at length at first use and briefly at every later one, since whatever else ran here the first time can
    have hidden a peak: the best that was ever seen counts.
    """
    known: Hardware | None = None
    with contextlib.suppress(OSError, ValidationError):
        known = Hardware.model_validate_json(_cache_file().read_text())
    with device_lock():
        measured = measure_hardware(brief=known is not None)
    best = known.best_of(measured) if known else measured
    if best != known:
        remember(best)
    return best


def remember(measured: Hardware) -> None:
    """Keep the figures for later processes; a cache that can't be written is not an error."""
    path = _cache_file()
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(measured.model_dump_json())
        draft.replace(path)


@functools.cache
def cpu_model() -> str:
    """The processor's name as the kernel reports it."""
    with contextlib.suppress(OSError):
        fields = [line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line]
        known = {key.strip(): value.strip() for key, value in reversed(fields)}
        names = [known[key] for key in ("model name", "CPU part", "model", "stepping") if key in known]
        if names:
            return " ".join(names)
    return platform.processor() or platform.machine()


def _cache_file() -> Path:
    source = Path(__file__).with_name("native") / "instruments.cpp"
    key = json.dumps([cpu_model(), len(os.sched_getaffinity(0)), find_compiler().version, source.read_text()])
    return cache_dir() / f"hardware-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _last_level_cache() -> int:
    """Bytes of the largest cache of core 0; 0 where the kernel doesn't say."""
    sizes = [0]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(path.read_text().strip().rstrip("K")) * 1024)
    return max(sizes)
