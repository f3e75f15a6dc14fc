"""What leaves nothing of a kernel's arrays in a GPU's second-level cache. For the judge and for workers of all kinds:
all launch the same, so that one knows what it takes where the other orders it. By the bare driver; needs a current
context.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tools.cuda_memory import call, driver

FLUSH_FACTOR = 2
"""Bytes that are read, in sizes of the cache."""
_THREADS, _BLOCKS = 512, 8
"""Of a block, and of a multiprocessor."""
_MULTIPROCESSORS, _CACHE = 16, 38
"""`CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT` and `_L2_CACHE_SIZE` (cuda.h)."""


class ColdCache:
    """Device memory that is read through: then the cache holds that, and nothing that has to be written back."""

    def __init__(self, instruments: str) -> None:
        """instruments: the cubin of `native/gpu_instruments.cu`. DriverError."""
        module, self._read = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuModuleLoad", ctypes.byref(module), instruments.encode())
        call("cuModuleGetFunction", ctypes.byref(self._read), module, b"read_all")
        self.size = FLUSH_FACTOR * _attribute(_CACHE)
        self._block, self._sink = _memory(self.size), _memory(256)
        grid = (_BLOCKS * _attribute(_MULTIPROCESSORS), 1, 1, _THREADS, 1, 1, 0)
        self._shape = [ctypes.c_uint(each) for each in grid]
        self._values = (self._block, ctypes.c_int64(self.size // 16), self._sink)
        self._arguments = (ctypes.c_void_p * 3)(*map(ctypes.addressof, self._values))
        self._launch: Any = driver().cuLaunchKernel

    def read(self, stream: int) -> None:
        """Enqueue the reading on the stream of that handle."""
        self._launch(self._read, *self._shape, ctypes.c_void_p(stream), self._arguments, None)

    def close(self) -> None:
        call("cuMemFree_v2", self._block)
        call("cuMemFree_v2", self._sink)


def _attribute(number: int) -> int:
    device, value = ctypes.c_int(), ctypes.c_int()
    call("cuCtxGetDevice", ctypes.byref(device))
    call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), device)
    return value.value


def _memory(size: int) -> ctypes.c_uint64:
    """Its address, zeroed."""
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(size))
    return address
