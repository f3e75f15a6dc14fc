"""Buffers of a workload in device memory, beside the host memory in which the judge makes and checks their content.

Spans are those of the host arenas. Each arena is a block of its own, so that what lies behind it is not mapped: what a
kernel writes past an output shows in the slack behind it, what it reaches beyond the block faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tools.buffers import Bytes, OutputBuffers, Value, WorkloadBuffers
from tools.contract import Signature
from tools.cuda_memory import DriverError, SharedBlock
from tools.errors import InfrastructureError

if TYPE_CHECKING:
    import pycuda.driver as cuda
else:
    from tools.cuda_memory import cuda


class DeviceInputs(WorkloadBuffers):
    """Inputs on the device. A worker maps them read-only."""

    def __init__(self, signature: Signature, signatures: Sequence[Signature], device: int) -> None:
        super().__init__(signature, signatures)
        self.block = shared_block(self._arena.bytes.size, device)

    def write(self, values: dict[str, Value]) -> None:  # type: ignore[override]
        super().write(values)
        _upload(self.block, self._arena.bytes)

    def close(self) -> None:
        super().close()
        self.block.close()


class DeviceOutputs(OutputBuffers):
    """Outputs on the device, and a copy of them that the worker makes in the order of the kernel's stream."""

    def __init__(self, inputs: DeviceInputs, device: int) -> None:
        super().__init__(inputs)
        size = self._arena.bytes.size
        self.block, self.snapshot = shared_block(size, device), shared_block(size, device)
        self.copy_seconds = _copy_seconds(self.block, self.snapshot)

    def poison(self, pattern_seed: int) -> None:
        super().poison(pattern_seed)
        _upload(self.block, self._arena.bytes)
        cuda.memset_d8(self.snapshot.address, 0, self.snapshot.size)

    def fetch(self, *, late: bool = False) -> None:
        if self._arena.bytes.size:
            cuda.memcpy_dtoh(self._arena.bytes, (self.block if late else self.snapshot).address)

    def close(self) -> None:
        super().close()
        self.block.close()
        self.snapshot.close()


def shared_block(size: int, device: int) -> SharedBlock:
    """A new block; InfrastructureError when there is no room."""
    try:
        return SharedBlock.create(size, device)
    except DriverError as error:
        raise InfrastructureError(
            f"no room for {size / 2**20:.0f} MiB of arrays on the device: {error}", "Use smaller workloads."
        ) from error


def _upload(block: SharedBlock, content: Bytes) -> None:
    if content.size:
        cuda.memcpy_htod(block.address, np.ascontiguousarray(content))


def _copy_seconds(source: SharedBlock, target: SharedBlock) -> float:
    """The shortest time of a few copies."""
    stream, begin, end = cuda.Stream(), cuda.Event(), cuda.Event()
    best = float("inf")
    for _ in range(5):
        begin.record(stream)
        cuda.memcpy_dtod_async(target.address, source.address, source.size, stream)
        end.record(stream)
        end.synchronize()
        best = min(best, begin.time_till(end) * 1e-3)
    return best
