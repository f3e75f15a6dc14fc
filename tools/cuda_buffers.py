"""Buffers of a workload in device memory, beside the host memory in which the judge makes and checks their content.

Spans are those of the host arenas. Each arena is a block of its own, so that what lies behind it is not mapped: what a
kernel writes past an output shows in the slack behind it, what it reaches beyond the block faults. Poison, and changes
from one timed call to the next, are made on the device: by the host they would take most of an evaluation's time.
"""

from __future__ import annotations

import ctypes
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.buffers import Bytes, OutputBuffers, Value, WorkloadBuffers
from tools.contract import Signature
from tools.cuda_content import ContentKernels
from tools.cuda_flush import FLUSH_FACTOR, ColdCache
from tools.cuda_memory import DriverError, SharedBlock, call
from tools.distributions import change_for
from tools.errors import InfrastructureError

if TYPE_CHECKING:
    import pycuda.driver as cuda
else:
    from tools.cuda_memory import cuda


COPIES = 32
"""Enough in a row for their launches to count for little."""


class DeviceInputs(WorkloadBuffers):
    """Inputs on the device. A worker maps them read-only."""

    keeps_content = True

    def __init__(
        self, signature: Signature, signatures: Sequence[Signature], device: int, kernels: ContentKernels
    ) -> None:
        super().__init__(signature, signatures)
        self.block = shared_block(self._arena.bytes.size, device)
        self.kernels = kernels

    def write(self, values: Mapping[str, Value]) -> None:
        super().write(values)
        _upload(self.block, self._arena.bytes)

    def changeable(self, values: Mapping[str, Value]) -> KeptInputs | None:
        """Only of arrays of floats, perhaps with sorted ones: a change of other elements may break what they mean."""
        changes = {name: change_for(np.asarray(values[name])) for name in self.inputs}
        if "roll" in changes.values() or "shrink" not in changes.values():
            return None
        try:
            return KeptInputs(self, values, [name for name, change in changes.items() if change == "shrink"])
        except cuda.Error:  # no room for a second copy
            return None

    def read(self) -> None:
        """Bring what is on the device into the host's `inputs`."""
        if self._arena.bytes.size:
            cuda.memcpy_dtoh(self._arena.bytes, self.block.address)

    def close(self) -> None:
        super().close()
        self.block.close()


class KeptInputs:
    """See `tools.buffers.Changeable`: a draw on the device, whose floats are scaled into the inputs of a call."""

    def __init__(self, inputs: DeviceInputs, values: Mapping[str, Value], floats: Sequence[str]) -> None:
        self._inputs = inputs
        self._values = dict(values)
        self._floats = floats
        inputs.write(values)
        self._block = cuda.mem_alloc(inputs.block.size)
        cuda.memcpy_dtod(self._block, inputs.block.address, inputs.block.size)

    def write_changed(self) -> Callable[[], dict[str, Any]]:
        block, key = self._inputs.block, secrets.randbits(62) * 2 + 1
        cuda.memcpy_dtod(block.address, self._block, block.size)  # what is left alone, and what another draw changed
        for name in self._floats:
            offset = self._inputs.spans[name].offset
            self._inputs.kernels.shrink(
                self._inputs.inputs[name], int(self._block) + offset, block.address + offset, key
            )
        return self._told

    def close(self) -> None:
        self._block.free()

    def _told(self) -> dict[str, Any]:
        self._inputs.read()
        return {name: self._inputs.inputs.get(name, value) for name, value in self._values.items()}


class DeviceOutputs(OutputBuffers):
    """Outputs on the device, and a copy of them that the worker makes in the order of the kernel's stream."""

    def __init__(self, inputs: DeviceInputs, device: int) -> None:
        super().__init__(inputs)
        self._given = inputs
        size = self._arena.bytes.size
        self.block, self.snapshot = shared_block(size, device), shared_block(size, device)
        self.copy_seconds = _seconds_in_a_row(partial(_copy, self.block, self.snapshot), times=1)
        """Of a single copy, by events."""

    def poison(self, pattern_seed: int) -> None:
        """As on the host, whose own copy is left as it is until `fetch`."""
        kernels, block = self._given.kernels, self.block
        self._pattern = kernels.poison(pattern_seed, block.address, self._arena.bytes.size)
        for name in self._in_place:
            source, target = self._given.spans[name], self.spans[name]
            cuda.memcpy_dtod(block.address + target.offset, self._given.block.address + source.offset, source.bytes)
        cuda.memset_d8(self.snapshot.address, 0, self.snapshot.size)

    def clear(self) -> None:
        """Zeros everywhere, also behind the arrays."""
        for block in (self.block, self.snapshot):
            cuda.memset_d8(block.address, 0, block.size)

    def fetch(self, *, late: bool = False) -> None:
        if self._arena.bytes.size:
            cuda.memcpy_dtoh(self._arena.bytes, (self.block if late else self.snapshot).address)

    def copy_seconds_in_a_row(self, cold: ColdCache | None = None) -> float:
        """Of each of many copies, one behind the other. With `cold` each is read out of the cache again, as is what a
        kernel writes to the outputs. The outputs are left as they are, their copy is not."""
        copy = partial(_copy, self.block, self.snapshot)
        if cold is None:
            return _seconds_in_a_row(copy)
        written = min(self.block.size / cold.size, 1 / FLUSH_FACTOR)  # back, while as much is read
        return _seconds_in_a_row(copy, cold.read) + written * _seconds_in_a_row(cold.read)

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


def _copy(source: SharedBlock, target: SharedBlock, stream: int) -> None:
    call("cuMemcpyDtoDAsync_v2", *map(ctypes.c_uint64, (target.address, source.address, source.size, stream)))


def _seconds_in_a_row(*works: Callable[[int], None], times: int = COPIES) -> float:
    """The shortest time of all works, one after the other, in a few rows of them."""
    stream, begin, end = cuda.Stream(), cuda.Event(), cuda.Event()
    best = math.inf
    for _ in range(5):
        begin.record(stream)
        for _ in range(times):
            for work in works:
                work(stream.handle)
        end.record(stream)
        end.synchronize()
        best = min(best, float(begin.time_till(end)) * 1e-3)
    return best / times
