"""The two kinds of memory that a torch kernel's tensors lie in, and the clocks beside them: this machine's, or a GPU's.

Runs in a confined child of `tools.torch_server`. Everything that measures is looked up before the kernel is loaded.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tools.messages import Kind
from tools.torch_ops import RuleBrokenError

PADDING, PAD_BYTE = 4096, 0xA7
"""Bytes on either side of memory that is guarded, and what they hold."""
HOLD_THREADS, HOLD_BLOCKS = 1024, 2
ALIGNMENT = 64
"""Bytes, of memory that ends before a guard page on the CPU."""
_LEGACY_STREAM = 0


class Memory(Protocol):
    """Where one process's tensors lie."""

    name: str

    def tensor(self, block: int, offset: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """A tensor over the judge's memory."""
        ...

    def address(self, block: int, offset: int) -> int: ...

    def copy(self, target: int, source: int, size: int) -> None:
        """In the order of the kernel's work."""
        ...

    def fill(self, target: int, source: int, size: int) -> None:
        """Copy before any work that the kernel orders from now on, on whatever stream."""
        ...

    def cool(self) -> None:
        """Leave nothing of the kernel's arrays in a device's caches, in the order of the kernel's work."""
        ...

    def timed(self, work: Callable[[], Any], delay: int) -> tuple[Any, int, int]:
        """What `work` returns, nanoseconds of launching it, and a mark for `elapsed`."""
        ...

    def elapsed(self) -> int:
        """Nanoseconds of the work that was timed last; the device has ended it."""
        ...

    def settle(self) -> tuple[Kind, str] | None:
        """Wait for all work; what the device reports when it failed."""
        ...

    def guarded(self, torch: Any, like: Any) -> Any:
        """A tensor of the same kind in memory whose surroundings are watched."""
        ...

    def require_whole_guards(self) -> None:
        """RuleBrokenError when something was written around a guarded tensor."""
        ...


class HostMemory:
    """See `Memory`: tensors over shared memory between guard pages."""

    name = "cpu"

    def __init__(self, guard: str) -> None:
        library = ctypes.CDLL(guard)
        self._map, self._reserve = library.guard_map, library.guard_reserve
        self._map.restype = self._reserve.restype = ctypes.c_void_p
        self._map.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_uint64, ctypes.c_int)
        self._reserve.argtypes = (ctypes.c_uint64, ctypes.c_uint64)
        self._watch = library.guard_watch
        self._watch.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
        self._spans: dict[tuple[int, int], int] = {}
        self._guarded: list[tuple[int, int, int]] = []
        self._now, self._elapsed = time.perf_counter_ns, 0
        self._copy, self._string = ctypes.memmove, ctypes.string_at
        self._torch: Any = importlib.import_module("torch")

    def map(self, block: int, offset: int, size: int, *, writable: bool, workload: int, slot: int) -> None:
        """Map one span of a descriptor. MemoryError when there is no room."""
        if size == 0:
            self._spans[block, offset] = 0
            return
        address = self._map(block, offset, size, writable)
        if not address:
            raise MemoryError
        self._watch(address, size, workload, slot)
        self._spans[block, offset] = address

    def address(self, block: int, offset: int) -> int:
        return self._spans[block, offset]

    def tensor(self, block: int, offset: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        return over_memory(self._torch, self.address(block, offset), dtype, shape)

    def copy(self, target: int, source: int, size: int) -> None:
        if size and target != source:
            self._copy(target, source, size)

    fill = copy

    def cool(self) -> None:
        """There is no device."""

    def timed(self, work: Callable[[], Any], delay: int) -> tuple[Any, int, int]:
        del delay
        begin = self._now()
        result = work()
        self._elapsed = self._now() - begin
        return result, 0, 0

    def elapsed(self) -> int:
        return self._elapsed

    def settle(self) -> tuple[Kind, str] | None:
        return None

    def guarded(self, torch: Any, like: Any) -> Any:
        size = like.untyped_storage().nbytes()
        if size == 0 or like.device.type != "cpu":
            return like
        address = self._reserve(size, ALIGNMENT)
        if not address:
            raise MemoryError
        behind = address + size
        end = -(-behind // mmap.PAGESIZE) * mmap.PAGESIZE
        ctypes.memset(behind, PAD_BYTE, end - behind)
        before = address // mmap.PAGESIZE * mmap.PAGESIZE
        ctypes.memset(before, PAD_BYTE, address - before)
        self._guarded += [(before, address - before, size), (behind, end - behind, size)]
        made = over_memory(torch, address, torch.uint8, (size,)).view(like.dtype)
        made = torch.as_strided(made, like.shape, like.stride())
        self._copy(address, like.data_ptr(), size)
        return made

    def require_whole_guards(self) -> None:
        for address, size, owner in self._guarded:
            if self._string(address, size) != bytes([PAD_BYTE]) * size:
                raise RuleBrokenError("memory_error", f"wrote past the end of {owner} bytes that it had allocated")
        self._guarded.clear()


class DeviceMemory:
    """See `Memory`: tensors over blocks that the judge allocated on a GPU; clocks are the driver's events."""

    name = "cuda"

    def __init__(self, blocks: Mapping[int, tuple[int, bool]], instruments: str) -> None:
        """`blocks`: descriptor to size and whether it may be written. Makes the context."""
        memory = importlib.import_module("tools.cuda_memory")
        self._torch: Any = importlib.import_module("torch")
        self._torch.cuda.init()
        self._torch.empty(1, device="cuda")
        self._torch.cuda.synchronize()
        self._driver, self._error_name = memory.driver(), memory.error_name
        self._blocks = {
            fd: memory.SharedBlock.open(fd, size, 0, writable=writable) for fd, (size, writable) in blocks.items()
        }
        self._call = memory.call
        self._begin, self._end = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (self._begin, self._end):
            self._call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        self._prepare_hold(instruments)
        self._cold = importlib.import_module("tools.cuda_flush").ColdCache(instruments)
        self._wait = self._driver.cuStreamSynchronize
        self._record, self._synchronise = self._driver.cuEventRecord, self._driver.cuCtxSynchronize
        self._copy_async, self._set = self._driver.cuMemcpyDtoDAsync_v2, self._driver.cuMemsetD8Async
        self._elapsed_time, self._launch = self._driver.cuEventElapsedTime, self._driver.cuLaunchKernel
        self._now = time.perf_counter_ns
        self._guarded: list[tuple[Any, int]] = []
        self._tensors: list[Any] = []
        self._forget_lines = self._driver.cuCtxResetPersistingL2Cache
        self.timed(lambda: None, 1)
        if (fault := self.settle()) is not None:
            raise RuntimeError(fault[1])

    def _prepare_hold(self, instruments: str) -> None:
        module, self._hold = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoad", ctypes.byref(module), instruments.encode())
        self._call("cuModuleGetFunction", ctypes.byref(self._hold), module, b"hold")
        self._blocks_held = HOLD_BLOCKS * self._torch.cuda.get_device_properties(0).multi_processor_count

    def address(self, block: int, offset: int) -> int:
        address: int = self._blocks[block].address
        return address + offset

    def tensor(self, block: int, offset: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        if size == 0:
            return self._torch.empty(shape, dtype=dtype, device="cuda")
        raw = self._torch.as_tensor(_Bytes(self.address(block, offset), size), device="cuda")
        return raw.view(dtype).view(shape)

    def copy(self, target: int, source: int, size: int) -> None:
        if size and target != source:
            self._copy_async(_pointer(target), _pointer(source), ctypes.c_size_t(size), _pointer(_LEGACY_STREAM))

    def fill(self, target: int, source: int, size: int) -> None:
        self.copy(target, source, size)
        self._wait(_pointer(_LEGACY_STREAM))

    def cool(self) -> None:
        self._cold.read(_LEGACY_STREAM)

    def timed(self, work: Callable[[], Any], delay: int) -> tuple[Any, int, int]:
        self._forget_lines()
        self._queue_hold(1000 * delay)
        begin = self._now()
        self._record(self._begin, _pointer(_LEGACY_STREAM))
        result = work()
        self._record(self._end, _pointer(_LEGACY_STREAM))
        return result, self._now() - begin, 0

    def elapsed(self) -> int:
        milliseconds = ctypes.c_float()
        self._elapsed_time(ctypes.byref(milliseconds), self._begin, self._end)
        return round(milliseconds.value * 1e6)

    def settle(self) -> tuple[Kind, str] | None:
        code = self._synchronise()
        return (Kind.DEVICE_FAULT, self._error_name(code)) if code else None

    def guarded(self, torch: Any, like: Any) -> Any:
        size = like.untyped_storage().nbytes()
        if size == 0 or like.device.type != "cuda":
            return like
        base = torch.empty(size + 2 * PADDING, dtype=torch.uint8, device="cuda")
        self._set(_pointer(base.data_ptr()), ctypes.c_ubyte(PAD_BYTE), ctypes.c_size_t(size + 2 * PADDING), None)
        self.copy(base.data_ptr() + PADDING, like.data_ptr(), size)
        self._guarded.append((base, size))
        return torch.as_strided(base[PADDING : PADDING + size].view(like.dtype), like.shape, like.stride())

    def require_whole_guards(self) -> None:
        for base, size in self._guarded:
            if not bool(((base[:PADDING] == PAD_BYTE).all() & (base[PADDING + size :] == PAD_BYTE).all()).item()):
                raise RuleBrokenError("memory_error", f"wrote outside {size} bytes that it had allocated")
        self._guarded.clear()

    def _queue_hold(self, nanoseconds: int) -> None:
        if nanoseconds == 0:
            return
        argument = ctypes.c_uint64(nanoseconds)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
        sizes = [ctypes.c_uint(each) for each in (self._blocks_held, 1, 1, HOLD_THREADS, 1, 1, 0)]
        self._launch(self._hold, *sizes, _pointer(_LEGACY_STREAM), arguments, None)


class _Bytes:
    """Device memory as other libraries take it."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


def over_memory(torch: Any, address: int, dtype: Any, shape: Sequence[int]) -> Any:
    """A tensor over host memory that stays mapped."""
    count = 1
    for extent in shape:
        count *= extent
    if count == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    raw = (ctypes.c_ubyte * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype, count=count).view(tuple(shape))


def _pointer(value: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(value)


def scalar_at(host: mmap.mmap, offset: int, ctype: str) -> int | float | bool:
    """A scalar input as it stands in the judge's memory now."""
    kind: Any = ctypes.c_double if ctype == "float64" else ctypes.c_int64
    value = kind.from_buffer_copy(host, offset).value
    return bool(value) if ctype == "bool" else value


def close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
