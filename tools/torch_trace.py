"""Whose work a torch kernel's result is: what the profiler saw of it, held against what may be the framework's.

Not covered: a kernel that behaves when it is watched. The dispatcher's trace is in force in every call; this looks
below it, at what runs on the device and in other threads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from tools.records import Kernel
from tools.runner import Failed
from tools.torch_ops import ALLOWED, COPYING

FRAMEWORK_KERNELS = re.compile(
    r"at::native::|at_cuda_detail|c10d?::|triton_(?:poi|red|per|tem|mm)_|cupy_\w+__|flash_fwd|pytorch_flash",
    re.IGNORECASE,
)
"""Names of kernels that PyTorch, its compiler and CuPy bring."""
VENDOR_KERNELS = re.compile(
    r"cutlass|cublas|cudnn|cufft|cusparse|cusolver|curand|"
    r"(?:sm\d\d|ampere|volta|turing|hopper|maxwell)_\w*(?:gemm|conv|fprop|dgrad|wgrad|xmma|cudnn)|_xmma_|"
    r"splitKreduce|gemv2|gemvNSP|gemvx|dot_kernel|reduce_1Block|nchwToNhwc|implicit_convolve|winograd|fmha",
    re.IGNORECASE,
)
"""Those of the vendor's libraries. A library that the task allows brings others with it, so then all of them pass."""
FILLS = re.compile(r"FillFunctor|^Memset|^Memcpy|\bhold\b")
"""What allocating and copying leaves there, and the judge's own."""
LIBRARIES = frozenset({"cub", "thrust"})
"""Namespaces of headers: a kernel's own functions may be made with those that it names."""
MOST_FOREIGN = 0.1
"""Of the device's time: what may go to functions that the sources do not name."""
_WORD = re.compile(r"[A-Za-z_]\w{2,}")


def require_own_work(
    kernel: Kernel, names: Sequence[str], traced: Sequence[Mapping[str, Any]], libraries: Sequence[str] = ()
) -> dict[str, JsonValue]:
    """The share of the device's time in the kernel's own code and in `libraries`, which the task allows, by workload.
    Raises Failed("framework_op")."""
    words = frozenset(word for text in kernel.files.values() for word in _WORD.findall(text))
    shares: dict[str, JsonValue] = {}
    for name, seen in zip(names, traced, strict=True):
        for operator in _names(seen, "operators"):
            namespace, _, short = str(operator).partition("::")
            if namespace == "aten" and short.partition(".")[0] not in ALLOWED | COPYING:
                raise Failed("framework_op", f"it called {operator}, which computes in its stead (workload {name})")
        own, foreign = 0.0, dict[str, float]()
        for function, row in seen.get("kernels", {}).items():
            seconds = _micro(row)
            if FILLS.search(function):
                continue
            framework, vendors = FRAMEWORK_KERNELS.search(function), VENDOR_KERNELS.search(function)
            mine = is_own(function, words) or bool(libraries and vendors and not framework)
            if not mine and (framework or vendors):
                raise Failed(
                    "framework_op",
                    f"it has the device run {function[:120]}, which is not its own (workload {name})",
                    details={"device_kernels": [*_names(seen, "kernels")][:40]},
                )
            if mine:
                own += seconds
            else:
                foreign[function] = seconds
        whole = own + sum(foreign.values())
        if whole > 0 and own < (1 - MOST_FOREIGN) * whole:
            raise Failed(
                "framework_op",
                f"its sources name nowhere what the device runs: {max(foreign, key=foreign.__getitem__)[:120]} "
                f"(workload {name})",
                details={"device_kernels": [*_names(seen, "kernels")][:40]},
            )
        if whole > 0:
            shares[name] = own / whole
    return shares


def is_own(function: str, words: frozenset[str]) -> bool:
    """Whether the function's own name, without namespaces and template arguments, stands in the kernel's sources, or
    that of the library which its headers bring."""
    plain = function.removeprefix("void ").replace("(anonymous namespace)::", "")
    plain = re.sub(r"<.*", "", plain).partition("(")[0].strip()
    if "at::native" in plain:
        return False
    return plain.rpartition("::")[2] in words or plain.partition("::")[0] in LIBRARIES & words


def _names(seen: Mapping[str, Any], kind: str) -> list[JsonValue]:
    found = seen.get(kind)
    return [str(name) for name in found] if isinstance(found, dict) else []


def _micro(row: object) -> float:
    return float(row[1]) if isinstance(row, list) and len(row) == 2 and isinstance(row[1], int | float) else 0.0
