"""What a GPU can do, measured: bandwidth and multiply-add peaks. Needs a current context.

Peaks are upper bounds used to refuse impossible times, so every figure is the best of many launches. Not covered:
matrix units that are driven in a way of their own (compute capability 10), whose peaks are left unknown rather than
guessed; sparse products; formats of 8 bits and less.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationError

from tools.cache import NATIVE, cache_dir
from tools.hardware import Hardware

if TYPE_CHECKING:
    import pycuda.driver as cuda
else:
    from tools.cuda_memory import cuda

_BYTES = 1 << 30
_LAUNCHES = 12
_ROUNDS = 4096
_CHAINS = 16
_THREADS = 512
_BLOCKS = 8  # of a multiprocessor
_BY_WIDTH = {"float32": np.float32, "float64": np.float64}
_TILE_THREADS, _TILE_ROUNDS = 256, 2048
_TILE_DEPTHS = {"tf32": 8, "bfloat16": 16, "float16": 16}
"""Elements that one product of tiles is deep, by what the tiles hold."""


def measure(device: cuda.Device, instruments: Path, compiler: str) -> Hardware:
    """Measure now, for about a tenth of a second; the caller holds the device."""
    module = cuda.module_from_file(str(instruments))
    attribute = cuda.device_attribute
    processors = device.get_attribute(attribute.MULTIPROCESSOR_COUNT)
    grid, block = (_BLOCKS * processors, 1), (_THREADS, 1, 1)
    size = min(_BYTES, device.total_memory() // 8) // 4096 * 4096
    source, target = cuda.mem_alloc(size), cuda.mem_alloc(size)
    cuda.memset_d8(source, 1, size)
    count = np.int64(size // 16)
    read, copy = module.get_function("read_all"), module.get_function("copy_all")
    seconds = {
        "read": _best(partial(read, source, count, target, block=block, grid=grid)),
        "copy": min(
            _best(partial(copy, source, target, count, block=block, grid=grid)),
            _best(lambda *, stream: cuda.memcpy_dtod_async(target, source, size, stream)),
        ),
        "write": _best(lambda *, stream: cuda.memset_d8_async(target, 2, size, stream)),
    }
    peaks = {}
    for dtype, kind in _BY_WIDTH.items():
        function = module.get_function(f"multiply_add_{dtype}")
        arguments = (target, kind(1.5), np.int32(_ROUNDS))
        best = _best(partial(function, *arguments, block=block, grid=grid))
        peaks[dtype] = 2.0 * _CHAINS * _ROUNDS * _THREADS * grid[0] / best
    matrix = _matrix_peaks(module, target, processors)
    source.free()
    target.free()
    return Hardware(
        model=device.name(),
        cores=processors,
        memory_bytes=device.total_memory(),
        cache_bytes=device.get_attribute(attribute.L2_CACHE_SIZE),
        compiler=compiler,
        read_bandwidth=size / seconds["read"],
        copy_bandwidth=2 * size / seconds["copy"],
        write_bandwidth=size / seconds["write"],
        peak_flops=peaks | matrix,
        matrix_units=not matrix,
    )


def _matrix_peaks(module: cuda.Module, room: cuda.DeviceAllocation, processors: int) -> dict[str, float]:
    """Of the units that multiply tiles, by what these hold; empty where the instruments have no way to drive them."""
    try:
        module.get_function("shape_of_tiles")(room, block=(1, 1, 1), grid=(1, 1))
    except cuda.LogicError:
        return {}
    shape = np.zeros(3, np.int32)
    cuda.memcpy_dtoh(shape, room)
    shared, blocks, products = (int(value) for value in shape)
    launch = {"block": (_TILE_THREADS, 1, 1), "grid": (blocks * processors, 1), "shared": shared}
    peaks = {}
    for dtype, depth in _TILE_DEPTHS.items():
        best = _best(partial(module.get_function(f"multiply_tiles_{dtype}"), room, np.int32(_TILE_ROUNDS), **launch))
        peaks[dtype] = 2.0 * products * depth * _TILE_ROUNDS * blocks * processors / best
    return peaks


def known(uuid: str) -> Hardware | None:
    """The figures kept for the device."""
    with contextlib.suppress(OSError, ValidationError):
        return Hardware.model_validate_json(_file(uuid).read_text())
    return None


def keep(uuid: str, measured: Hardware) -> None:
    """Keep the figures for later processes; a cache that can't be written is not an error."""
    path = _file(uuid)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(measured.model_dump_json())
        draft.replace(path)


def _file(uuid: str) -> Path:
    key = json.dumps([uuid, (NATIVE / "gpu_instruments.cu").read_text()])
    return cache_dir() / f"hardware-{uuid}-{hashlib.sha256(key.encode()).hexdigest()[:8]}.json"


def _best(launch: Callable[..., object]) -> float:
    """Seconds of the fastest of some launches."""
    stream, begin, end = cuda.Stream(), cuda.Event(), cuda.Event()
    best = float("inf")
    for _ in range(_LAUNCHES):
        begin.record(stream)
        launch(stream=stream)
        end.record(stream)
        end.synchronize()
        best = min(best, begin.time_till(end) * 1e-3)
    return best
