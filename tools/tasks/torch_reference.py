"""Where PyTorch computes a reference: on the host, or on the GPU that this process can use, always in full precision.

Large results stay on the device: what a kernel gave is brought there and compared with the oracle by the same bound
that `tools.numerics` grants in any case. Whatever that bound does not settle is compared on the host as ever.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.errors import TaskError
from tools.numerics import QUIET, Slices, granted
from tools.records import Policy
from tools.tasks.values import BFLOAT16, DTYPES, Array, Value, as_array

_ROWS = 1 << 24
"""Elements that are compared at a time, so that temporaries stay small beside the arrays."""


@dataclass(frozen=True)
class Place:
    """PyTorch, and the device that it computes on: `cpu` or `cuda`."""

    torch: Any
    device: str = "cpu"

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    def tensor(self, value: Value, *, wide: bool = False) -> Any:
        """A tensor with memory of its own (`forward` may work in place), floats in float64 when `wide`; a scalar as it
        is."""
        if not isinstance(value, np.ndarray):
            return value
        shared = _shared(self.torch, value)
        moved = shared.to(self.device) if self.on_gpu else shared.clone()
        return moved.double() if wide and moved.is_floating_point() else moved

    def array(self, value: Any, where: str = "a tensor") -> Any:
        """A tensor as an array with memory of its own; anything else as it is."""
        if not isinstance(value, self.torch.Tensor):
            return value
        host = value.detach().contiguous().cpu()
        if host.dtype == self.torch.bfloat16:
            return host.view(self.torch.int16).numpy().view(BFLOAT16).copy()
        array = host.numpy()
        own = value.device.type != "cpu" and array.dtype in DTYPES
        return array if own else as_array(array, where)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Tensors that the task makes without naming a device are made here."""
        if not self.on_gpu:
            yield
            return
        with self.torch.device(self.device):
            yield

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Seed torch, NumPy's global generator and `random` within, and leave their states as they were."""
        numpy_state, python_state = np.random.get_state(), random.getstate()
        with self.torch.random.fork_rng(devices=[0] if self.device == "cuda" else []), self.entered():
            self.torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)
            try:
                yield
            finally:
                np.random.set_state(numpy_state)
                random.setstate(python_state)

    def forget(self) -> None:
        """Give back device memory that nothing uses."""
        if self.on_gpu:
            self.torch.cuda.empty_cache()


def torch_place(target: str) -> Place:
    """On the GPU for the target `cuda` where torch can use one, else on the host. Raises TaskError("missing")."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise TaskError(
            "missing",
            "This is a KernelBench task and torch is not installed",
            f"Install it: {sys.executable} -m pip install 'torch>=2.11'",
        ) from error
    if target != "cuda" or not torch.cuda.is_available():
        return Place(torch)
    allow_tf32(torch, "strict")
    return Place(torch, "cuda")


def allow_tf32(torch: Any, policy: Policy) -> None:
    """Let products of float32 be rounded to TF32, or not: libraries differ in what they do when nobody says."""
    allowed = policy != "strict"
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed


class NearExpected:
    """The right answer to one content, held where it was computed: by output, the reference's own and the oracle's."""

    def __init__(self, place: Place, own: Mapping[str, Any], oracle: Mapping[str, Any]) -> None:
        self._place = place
        self._own = dict(own)
        self._oracle = dict(oracle)

    def finite(self) -> bool:
        """Whether no floating value is a NaN or an infinity."""
        floats = [v for v in (*self._own.values(), *self._oracle.values()) if v.is_floating_point()]
        return all(bool(self._place.torch.isfinite(value).all()) for value in floats)

    def worst(self, actual: Mapping[str, Array], policy: Policy) -> float | None:
        """Largest error as a fraction of its tolerance, where every output is within what is granted in any case;
        None where that is not so, or can't be told here."""
        worst = 0.0
        for name, own in self._own.items():
            given = actual[name]
            if tuple(given.shape) != tuple(own.shape):
                return None
            try:
                share = self._share(given, own, self._oracle[name], policy)
            except self._place.torch.OutOfMemoryError:
                return None
            if share is None or not share <= 1:
                return None
            worst = max(worst, share)
        return worst

    def _share(self, given: Array, own: Any, oracle: Any, policy: Policy) -> float | None:
        torch = self._place.torch
        if given.dtype == np.bool_ and given.size and int(given.view(np.uint8).max()) > 1:
            return None
        if not own.numel():
            return 0.0
        near = _shared(torch, given).to(own.device)
        if not own.is_floating_point():
            return 0.0 if near.dtype == own.dtype and bool(torch.equal(near, own)) else None
        if own.dtype not in (torch.float32, torch.float64) or near.dtype != own.dtype:
            return None
        length = Slices(tuple(own.shape)).length
        return share_of_floor(torch, near, oracle, length, granted(given.dtype, policy))


def share_of_floor(torch: Any, actual: Any, oracle: Any, length: int, floor: float) -> float:
    """`tools.hardware.Instruments.share_of_floor` in torch: largest |actual - oracle| / (floor x scale) over slices of
    `length` elements; inf where anything is not finite. `oracle` is float64, both are of one size and device."""
    actual, oracle = actual.reshape(-1), oracle.reshape(-1)
    count = oracle.numel()
    least = QUIET * float(torch.linalg.vector_norm(oracle)) / count**0.5
    if not np.isfinite(least):
        return float("inf")
    rows = max(_ROWS // length, 1) * length
    worst = 0.0
    for start in range(0, count, rows):
        expected, error = oracle[start : start + rows], actual[start : start + rows].double()
        error = (error - expected).abs_()
        if not bool(torch.isfinite(error).all()):
            return float("inf")
        if expected.numel() % length:  # a short last slice repeats its last element
            missing = length - expected.numel() % length
            expected = torch.cat([expected, expected[-1:].expand(missing)])
            error = torch.cat([error, error[-1:].expand(missing)])
        expected = expected.reshape(-1, length).abs()
        rms = expected.square().mean(dim=1, keepdim=True).sqrt_().clamp_(min=least)
        tolerance = torch.maximum(expected, rms).mul_(floor).clamp_(min=sys.float_info.min)
        worst = max(worst, float(error.reshape(-1, length).div_(tolerance).max()))
    return worst


def jittered(torch: Any, tensor: Any, generator: Any, bits: int | None) -> Any:
    """A floating tensor in float64, each element moved by half a unit in the last place of its own dtype, or of one
    with so many bits if that has fewer."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        return tensor
    rounding = max(float(torch.finfo(tensor.dtype).eps) / 2, 0.0 if bits is None else 2.0**-bits)
    signs = torch.randint(0, 2, tensor.shape, generator=generator, device=tensor.device, dtype=torch.int8)
    return tensor.double() * (1 + (signs.double() * 2 - 1) * rounding)


def rounded_to(torch: Any, tensor: Any, generator: Any, bits: int | None) -> Any:
    """A floating tensor in float64, rounded to so many significant bits if its dtype has more."""
    del generator
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        return tensor
    scale = 1 / max(float(torch.finfo(tensor.dtype).eps) / 2, 0.0 if bits is None else 2.0**-bits)
    fraction, exponent = torch.frexp(tensor.double())
    return torch.ldexp((fraction * scale).round() / scale, exponent)


def _shared(torch: Any, array: Array) -> Any:
    """A tensor over the array's own memory where that can be, which nobody writes through it."""
    if not (array.flags.c_contiguous and array.flags.writeable):
        array = array.copy(order="C")
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
