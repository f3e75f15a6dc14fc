"""What `forward` returned, looked at before its bytes are taken: plain tensors of the declared kind, in memory of their
own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tools.torch_ops import RuleBrokenError

Region = tuple[str, int, int]
"""Name, first address and the address behind the last."""


@dataclass(frozen=True)
class Wanted:
    """One output as the task declares it."""

    name: str
    dtype: Any
    shape: tuple[int, ...]
    nbytes: int
    own: tuple[int, int] | None = None
    """The addresses of an output that is updated in place."""


class Checker:
    """Holds on to the methods of plain tensors, so that a class that replaces them later changes nothing here."""

    def __init__(self, torch: Any, device: str) -> None:
        self._plain = torch.Tensor
        self._strided = torch.strided
        self._device = device
        self._address: Callable[[Any], int] = torch.Tensor.data_ptr
        self._offset: Callable[[Any], int] = torch.Tensor.storage_offset
        self._storage = torch.Tensor.untyped_storage
        self._contiguous = torch.Tensor.is_contiguous

    def addresses(self, result: Any, wanted: Sequence[Wanted], taken: Sequence[Region]) -> list[int]:
        """Where each output's bytes are. RuleBrokenError for anything else than tensors as wanted; `taken` is memory
        that a result may not lie in."""
        many = list(result) if type(result) in (tuple, list) else [result]
        if len(many) != len(wanted):
            raise _wrong(f"returned {len(many)} values instead of {len(wanted)}")
        return [self._checked(tensor, want, taken) for tensor, want in zip(many, wanted, strict=True)]

    def _checked(self, tensor: Any, want: Wanted, taken: Sequence[Region]) -> int:
        if type(tensor) is not self._plain:
            raise _wrong(f"returned a {type(tensor).__name__} as `{want.name}` instead of a plain torch.Tensor")
        if tensor.layout is not self._strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            raise _wrong(f"returned `{want.name}` in a layout that is not plain memory")
        if tensor.device.type != self._device:
            raise _wrong(f"returned `{want.name}` on {tensor.device.type} instead of {self._device}")
        if tensor.dtype is not want.dtype:
            raise _wrong(f"returned `{want.name}` as {tensor.dtype} instead of {want.dtype}")
        if tuple(tensor.shape) != want.shape:
            raise _wrong(f"returned `{want.name}` with the shape {list(tensor.shape)} instead of {list(want.shape)}")
        if want.nbytes == 0:
            return 0
        if not self._contiguous(tensor):
            raise _wrong(f"returned `{want.name}` with the strides {list(tensor.stride())}: return a contiguous tensor")
        end = self._offset(tensor) * tensor.element_size() + want.nbytes
        if self._storage(tensor).nbytes() < end:
            raise _wrong(f"returned `{want.name}` with less memory than its shape says")
        address = self._address(tensor)
        if address == 0:
            raise _wrong(f"returned `{want.name}` without memory")
        if want.own is not None and want.own[0] <= address < want.own[1]:
            return address
        for name, first, last in taken:
            if address < last and address + want.nbytes > first:
                raise _wrong(f"returned memory of `{name}` as `{want.name}` instead of memory of its own")
        return address


def _wrong(message: str) -> RuleBrokenError:
    return RuleBrokenError("wrong_result", message)
