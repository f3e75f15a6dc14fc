"""Shared memory between the judge and its workers: inputs that workers can only read, outputs of each worker's own.

Arenas are memfds with every tensor on its own pages. The input arena is sealed against future writable mappings, so a
worker can't change inputs whatever it does; the judge keeps the one writable mapping. Workers map each tensor between
guard pages. Views are NumPy arrays (ml_dtypes.bfloat16 for bfloat16), shaped as the signature says, also when empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tools.contract import CType, DType, Signature, Slot, Tensor, slots
from tools.errors import InfrastructureError

Array: TypeAlias = npt.NDArray[np.generic]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Value: TypeAlias = Array | np.generic | bool | int | float

PAGE = 4096
_ADD_SEALS, _SEALS = 1033, 0x1 | 0x2 | 0x4 | 0x10  # F_ADD_SEALS; F_SEAL_SEAL, _SHRINK, _GROW, _FUTURE_WRITE
POISON_LOW, POISON_HIGH = 0x21, 0x3F  # as the top byte of a float of any width: finite, neither tiny nor huge
POISON_PERIOD = 1_048_573  # bytes; prime, so that the pattern has no common period with an array's rows
_SCALAR_DTYPE: dict[CType, type[np.generic]] = {"int64": np.int64, "float64": np.float64, "bool": np.int64}


def numpy_dtype(dtype: DType) -> np.dtype[np.generic]:
    """NumPy's dtype of a contract dtype."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


@dataclass(frozen=True)
class Span:
    """Where a tensor lies in its arena."""

    offset: int
    bytes: int

    @property
    def end(self) -> int:
        return self.offset + self.bytes

    @property
    def page_end(self) -> int:
        return self.offset + whole_pages(self.bytes)


class _Arena:
    """A memfd with one page-aligned span for each size, and this process's writable mapping of it."""

    def __init__(self, name: str, sizes: Mapping[str, int]) -> None:
        self.spans: dict[str, Span] = {}
        total = 0
        for key, size in sizes.items():
            self.spans[key] = Span(total, size)
            total += whole_pages(size)
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(self.fd, 0, max(total, PAGE))
        except OSError as error:
            os.close(self.fd)
            raise InfrastructureError(
                f"no room for {total / 2**20:.0f} MiB of arrays: {error.strerror}", "Use smaller workloads."
            ) from error
        self.bytes: Bytes = np.frombuffer(mmap.mmap(self.fd, max(total, PAGE)), np.uint8)[:total]

    def view(self, key: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Array:
        span = self.spans[key]
        return self.bytes[span.offset : span.end].view(dtype).reshape(shape)

    def close(self) -> None:
        """Give the descriptor back; the memory goes with the last view."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Changeable(Protocol):
    """Content of one workload that is kept beside the inputs."""

    def write_changed(self) -> Callable[[], dict[str, Any]]:
        """Make it the inputs, changed in a new secret way. What it returns tells the inputs, as long as they are the
        latest."""
        ...

    def close(self) -> None:
        """Give its memory back."""
        ...


class WorkloadBuffers:
    """The inputs of one workload, shared by all workers. `inputs` are the judge's writable views of the tensors."""

    keeps_content = False
    """Whether `changeable` may give something."""

    def __init__(self, signature: Signature, signatures: Sequence[Signature]) -> None:
        """`signatures` are those of all the task's workloads (they decide which dimensions are run-time members)."""
        self.signature = signature
        self.slots: tuple[Slot, ...] = slots(signature, signatures)
        tensors = {item.name: item.nbytes for item in signature.input_tensors}
        self._arena = _Arena("inputs", {**tensors, **{item.name: 8 for item in signature.scalars}})
        self.inputs: dict[str, Array] = {item.name: _view(self._arena, item) for item in signature.input_tensors}
        self._scalars = {
            item.name: self._arena.view(item.name, np.dtype(_SCALAR_DTYPE[item.ctype]), ())
            for item in signature.scalars
        }
        self.read_only_fd = os.open(f"/proc/self/fd/{self._arena.fd}", os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # older kernels lack the seal; the descriptor is read-only in any case
            fcntl.fcntl(self._arena.fd, _ADD_SEALS, _SEALS)

    @property
    def spans(self) -> Mapping[str, Span]:
        """By name, for tensors and scalars."""
        return self._arena.spans

    def write(self, values: Mapping[str, Value]) -> None:
        """Copy new content in: every input tensor and scalar by name. ValueError on another name, shape or dtype."""
        expected = {item.name for item in self.signature.inputs}
        if set(values) != expected:
            raise ValueError(f"expected the inputs {sorted(expected)}, got {sorted(values)}")
        for name, view in self.inputs.items():
            value = np.asarray(values[name])
            if value.dtype != view.dtype or value.shape != view.shape:
                raise ValueError(
                    f"the input `{name}` is {value.dtype}{list(value.shape)} instead of {view.dtype}{list(view.shape)}"
                )
            np.copyto(view, value)
        for name, cell in self._scalars.items():
            np.copyto(cell, np.asarray(values[name]), casting="same_kind")

    def changeable(self, values: Mapping[str, Value]) -> Changeable | None:
        """Such content kept where it can be changed at next to no cost; None where that is not so, or nothing of it
        may be changed."""
        del values
        return None

    def intact(self) -> bool:
        """Whether the workers' inputs are what was written. They can't write here, so it is always true."""
        return True

    def digest(self) -> str:
        """Hash of the arena's bytes."""
        return hashlib.blake2b(self._arena.bytes.data, digest_size=16).hexdigest()

    def regions(self) -> list[tuple[int, int]]:
        """(address, bytes) of every input tensor in the judge's mapping."""
        return _regions(self.inputs.values())

    def flush(self, evict: Callable[[int, int], None]) -> None:
        """Call `evict(address, bytes)` on every input tensor (clflush works by physical line, so for workers too)."""
        for address, size in self.regions():
            evict(address, size)

    def close(self) -> None:
        self._arena.close()
        if self.read_only_fd >= 0:
            os.close(self.read_only_fd)
            self.read_only_fd = -1

    def __enter__(self) -> WorkloadBuffers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OutputBuffers:
    """The outputs of one workload in one worker: live views, so compare or copy them while the worker is paused.

    Compare a bool output as uint8: a kernel may have left any byte there.
    """

    def __init__(self, inputs: WorkloadBuffers) -> None:
        signature = inputs.signature
        self._inputs = inputs
        self._in_place = signature.in_place
        self._arena = _Arena("outputs", {item.name: item.nbytes for item in signature.outputs})
        self.outputs: dict[str, Array] = {item.name: _view(self._arena, item) for item in signature.outputs}
        self._pattern = np.zeros(1, np.uint8)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._arena.fd, _ADD_SEALS, _SEALS & ~0x10)

    @property
    def fd(self) -> int:
        return self._arena.fd

    @property
    def spans(self) -> Mapping[str, Span]:
        return self._arena.spans

    def poison(self, pattern_seed: int) -> None:
        """Fill every byte, the slack behind each tensor included, with a pattern that differs per seed.

        The pattern is not constant and holds no NaN and no infinity in any float dtype. Outputs that are updated in
        place get the current content of their input instead.
        """
        period = min(POISON_PERIOD, max(self._arena.bytes.size, 1))
        rng = np.random.default_rng(pattern_seed)
        self._pattern = rng.integers(POISON_LOW, POISON_HIGH, period, dtype=np.uint8)
        for start in range(0, self._arena.bytes.size, period):
            part = self._arena.bytes[start : start + period]
            part[:] = self._pattern[: part.size]
        for name in self._in_place:
            np.copyto(self.outputs[name], self._inputs.inputs[name])

    def fetch(self, *, late: bool = False) -> None:
        """Bring what the worker wrote into `outputs`: as it was when the call was over, or as it is now (`late`). Here
        both are one memory, and nothing is to do."""

    def untouched(self, name: str) -> npt.NDArray[np.bool_]:
        """Which elements of output `name` still hold the poison, shaped as the output."""
        span, view = self.spans[name], self.outputs[name]
        same = self._arena.bytes[span.offset : span.end] == self._poison_of(span.offset, span.end)
        return np.asarray(same.reshape(*view.shape, view.itemsize).all(axis=-1), np.bool_)

    def overrun(self) -> str | None:
        """Name of an output whose slack (between its end and its last page's end) was written since `poison`."""
        for name, span in self.spans.items():
            slack = self._arena.bytes[span.end : span.page_end]
            if not np.array_equal(slack, self._poison_of(span.end, span.page_end)):
                return name
        return None

    def regions(self) -> list[tuple[int, int]]:
        """(address, bytes) of every output in the judge's mapping."""
        return _regions(self.outputs.values())

    def flush(self, evict: Callable[[int, int], None]) -> None:
        """Call `evict(address, bytes)` on every output."""
        for address, size in self.regions():
            evict(address, size)

    def close(self) -> None:
        self._arena.close()

    def _poison_of(self, start: int, end: int) -> Bytes:
        """The pattern at the arena's bytes [start, end)."""
        return self._pattern[np.arange(start, end) % self._pattern.size]


def whole_pages(size: int) -> int:
    """`size` bytes rounded up to pages."""
    return -(-size // PAGE) * PAGE


def _view(arena: _Arena, item: Tensor) -> Array:
    return arena.view(item.name, numpy_dtype(item.dtype), item.shape)


def _regions(arrays: Iterable[Array]) -> list[tuple[int, int]]:
    return [(array.ctypes.data, array.nbytes) for array in arrays if array.nbytes]
