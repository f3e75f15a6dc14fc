"""Device memory that two processes share: the driver calls that PyCUDA does not offer, by ctypes.

A block is one physical allocation, exported as a file descriptor and mapped by whoever holds it; a worker maps inputs
read-only, so that the device itself refuses a write. Needs a current context. Not covered: several devices.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from typing import Any

LIBRARY = "libcuda.so.1"
_POSIX_FD, _PINNED, _ON_DEVICE = 1, 1, 1
_READ, _READ_WRITE = 1, 3


class _Cuda:
    """`pycuda.driver`, loaded when it is first used: it is an extra, and it does not load without a driver."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("pycuda.driver"), name)


cuda = _Cuda()


class DriverError(Exception):
    """A driver call failed."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call} failed: {error_name(code)}")
        self.code = code


class _Location(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("number", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


@functools.cache
def driver() -> ctypes.CDLL:
    """The driver's library. OSError where there is none."""
    return ctypes.CDLL(LIBRARY)


def error_name(code: int) -> str:
    """As `CUDA_ERROR_ILLEGAL_ADDRESS`."""
    text = ctypes.c_char_p()
    driver().cuGetErrorName(code, ctypes.byref(text))
    return (text.value or str(code).encode()).decode()


def call(name: str, *arguments: Any) -> None:
    """Call a driver function; DriverError unless it succeeds."""
    code = getattr(driver(), name)(*arguments)
    if code:
        raise DriverError(name, code)


def granularity(device: int) -> int:
    """Bytes that blocks are multiples of."""
    size = ctypes.c_size_t()
    call("cuMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(_properties(device)), 0)
    return size.value


class SharedBlock:
    """A mapped block of `size` bytes at `address`. The one that `create` makes owns the descriptor `fd`."""

    def __init__(self, handle: int, size: int, device: int, *, writable: bool, fd: int = -1) -> None:
        self._handle = ctypes.c_ulonglong(handle)
        self.size = size
        self.fd = fd
        self._address = ctypes.c_ulonglong()
        reserved = ctypes.c_size_t(size)
        call("cuMemAddressReserve", ctypes.byref(self._address), reserved, ctypes.c_size_t(0), ctypes.c_ulonglong(0),
             ctypes.c_ulonglong(0))  # fmt: skip
        call("cuMemMap", self._address, reserved, ctypes.c_size_t(0), self._handle, ctypes.c_ulonglong(0))
        access = _Access(_Location(_ON_DEVICE, device), _READ_WRITE if writable else _READ)
        call("cuMemSetAccess", self._address, reserved, ctypes.byref(access), ctypes.c_size_t(1))

    @classmethod
    def create(cls, size: int, device: int) -> SharedBlock:
        """A new block of at least `size` bytes. DriverError (out of memory, say)."""
        unit = granularity(device)
        size = max(-(-size // unit), 1) * unit
        handle = ctypes.c_ulonglong()
        call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(_properties(device)),
             ctypes.c_ulonglong(0))  # fmt: skip
        fd = ctypes.c_int(-1)
        call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, _POSIX_FD, ctypes.c_ulonglong(0))
        os.set_inheritable(fd.value, False)
        return cls(handle.value, size, device, writable=True, fd=fd.value)

    @classmethod
    def open(cls, fd: int, size: int, device: int, *, writable: bool) -> SharedBlock:
        """Map the block behind another process's descriptor."""
        handle = ctypes.c_ulonglong()
        call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), _POSIX_FD)
        return cls(handle.value, size, device, writable=writable)

    @property
    def address(self) -> int:
        return self._address.value

    def close(self) -> None:
        """Unmap; the memory is free when nobody maps it any more."""
        if self._handle.value == 0:
            return
        call("cuMemUnmap", self._address, ctypes.c_size_t(self.size))
        call("cuMemAddressFree", self._address, ctypes.c_size_t(self.size))
        call("cuMemRelease", self._handle)
        self._handle = ctypes.c_ulonglong(0)
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _properties(device: int) -> _Properties:
    return _Properties(_PINNED, _POSIX_FD, _Location(_ON_DEVICE, device), None, (ctypes.c_ubyte * 8)())
