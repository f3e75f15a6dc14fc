"""What leaves nothing of a kernel's arrays in a GPU's second-level cache. For the judge and for workers: both launch
the same, so that one knows what it takes where the other orders it. Needs a current context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pycuda.driver as cuda
else:
    from tools.cuda_memory import cuda

FLUSH_FACTOR = 2
"""Bytes that are read, in sizes of the cache."""
_THREADS, _BLOCKS = 512, 8
"""Of a block, and of a multiprocessor."""


class ColdCache:
    """A block of device memory that is read through: then the cache holds that, and nothing to be written back."""

    def __init__(self, instruments: str, device: cuda.Device) -> None:
        """instruments: the cubin of `native/gpu_instruments.cu`."""
        attribute = cuda.device_attribute
        self.size: int = FLUSH_FACTOR * int(device.get_attribute(attribute.L2_CACHE_SIZE))
        self._grid = (_BLOCKS * device.get_attribute(attribute.MULTIPROCESSOR_COUNT), 1)
        self._read = cuda.module_from_file(instruments).get_function("read_all").prepare("PqP")
        self._block, self._sink = cuda.mem_alloc(self.size), cuda.mem_alloc(256)
        cuda.memset_d8(self._block, 0, self.size)

    def read(self, stream: cuda.Stream) -> None:
        """Enqueue the reading."""
        self._read.prepared_async_call(
            self._grid, (_THREADS, 1, 1), stream, int(self._block), self.size // 16, int(self._sink)
        )

    def close(self) -> None:
        self._block.free()
        self._sink.free()
