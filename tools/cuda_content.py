"""What the judge does to arrays on a GPU between calls: poison, secret changes, and caches that hold nothing of them.

Needs a current context. Everything is queued on the default stream.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tools.buffers import POISON_HIGH, POISON_LOW, POISON_PERIOD, Array, Bytes

if TYPE_CHECKING:
    import pycuda.driver as cuda
else:
    from tools.cuda_memory import cuda

_THREADS = 256
_BLOCKS = 8  # of a multiprocessor
_STORE = 4
"""Sizes of a pattern from which one is taken: by its place in there they differ."""


class ContentKernels:
    """The kernels of `native/gpu_content.cu`, and a store of poison on both sides."""

    def __init__(self, cubin: Path, multiprocessors: int) -> None:
        self._module = cuda.module_from_file(str(cubin))
        self._grid = (_BLOCKS * multiprocessors, 1)
        rng = np.random.default_rng(secrets.randbits(64))
        self._store = rng.integers(POISON_LOW, POISON_HIGH, _STORE * POISON_PERIOD, dtype=np.uint8)
        self._device_store = cuda.to_device(self._store)

    def poison(self, seed: int, address: int, size: int) -> Bytes:
        """Fill `size` bytes at `address` with a pattern that the seed chooses, and return its period."""
        start = seed % ((_STORE - 1) * POISON_PERIOD)
        if size:
            self._launch("tile", np.uint64(int(self._device_store) + start), np.int64(POISON_PERIOD),
                         np.uint64(address), np.int64(size))  # fmt: skip
        pattern: Bytes = self._store[start : start + POISON_PERIOD]
        return pattern

    def shrink(self, like: Array, source: int, target: int, key: int) -> None:
        """Scale each float from `source` into `target`, both shaped and typed as `like`."""
        self._launch(f"shrink_{like.dtype.name}", np.uint64(source), np.uint64(target), np.int64(like.size),
                     np.uint64(key))  # fmt: skip

    def _launch(self, name: str, *arguments: object) -> None:
        self._module.get_function(name)(*arguments, block=(_THREADS, 1, 1), grid=self._grid)
