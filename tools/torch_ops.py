"""Which operators of the framework a torch kernel may use, and a tracer that sees each of them as it runs.

A kernel's own work is in its own code; of the framework it may take memory, look at it in other shapes, and hand over
a few parameters. Whatever computes or moves tensors is refused, by whatever name it is called: `@`, a method, a module,
`torch.ops`, or `at::` in an extension all arrive at the same dispatcher. Not covered: what is called with the
dispatcher switched off; `tools.torch_trace` looks for its kernels on the device.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ALLOCATING = frozenset(
    {
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
        *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"),
        *("full", "full_like", "new_full", "zero_", "fill_", "scalar_tensor"),
    }
)
"""Memory for results and scratch, with one value in all of it at most."""
VIEWING = frozenset(
    {
        *("view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "transpose", "t", "permute", "movedim"),
        *("detach", "detach_", "alias", "slice", "select", "narrow", "expand", "expand_as", "unsqueeze", "squeeze"),
        *("unbind", "split", "split_with_sizes", "chunk", "unfold", "diagonal", "flatten", "unflatten", "view_as"),
        *("transpose_", "t_", "unsqueeze_", "squeeze_", "as_strided_", "lift_fresh", "contiguous", "swapaxes"),
        *("view_as_real", "view_as_complex", "mT", "numpy_T", "ravel", "tensor_split", "hsplit", "vsplit"),
        *("resolve_conj", "resolve_neg"),
    }
)
"""The same memory in another shape."""
ASKING = frozenset(
    {
        *("size", "stride", "numel", "dim", "storage_offset", "is_contiguous", "is_same_size", "sym_size"),
        *("sym_stride", "sym_numel", "sym_storage_offset", "is_pinned", "_local_scalar_dense", "item", "device"),
        *("record_stream", "requires_grad_", "_has_compatible_shallow_copy_type", "is_complex", "is_floating_point"),
    }
)
"""Nothing but a question, or a mark."""
COPYING = frozenset({"copy_", "_to_copy", "to", "_copy_from"})
"""Allowed for what a launch is told: from the host to the device, and small."""
MOST_COPIED = 64 << 10
"""Bytes of such a copy."""
PACKAGES = frozenset({"aten", "prim", "prims", "torchvision", "torchaudio", "xformers", "flash_attn", "fbgemm"})
"""Namespaces of operators that are nobody's own."""
ALLOWED = ALLOCATING | VIEWING | ASKING
_UNFILLED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})

Filled = Callable[[Any], None]
Placed = Callable[[Any], Any]


class RuleBrokenError(Exception):
    """A kernel did what it may not: the reason of the verdict, and a phrase with the kernel as its subject."""

    def __init__(self, reason: str, message: str, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.reason, self.message, self.file, self.line = reason, message, file, line


def place(sources: Path, frame: Any = None) -> tuple[str, int] | None:
    """File and line of the innermost frame that is the kernel's own code."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(sources):
            return path.relative_to(sources).as_posix(), frame.f_lineno
        frame = frame.f_back
    return None


def broken_at(sources: Path, reason: str, message: str, frame: Any = None) -> RuleBrokenError:
    """The broken rule with the place where it was broken."""
    where = place(sources, frame or sys._getframe(1))
    if where is None:
        return RuleBrokenError(reason, message)
    return RuleBrokenError(reason, f"{message} ({where[0]}:{where[1]})", *where)


@functools.cache
def framework_namespaces() -> frozenset[str]:
    """Those of all operators known before a kernel is loaded, and of packages that bring more."""
    torch: Any = importlib.import_module("torch")
    names = torch._C._dispatch_get_all_op_names()
    return frozenset(name.partition("::")[0] for name in names) | PACKAGES


def allowed(namespace: str, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Whether the framework's operator may be called so."""
    if namespace == "prim":
        return True
    if name in COPYING:
        return _tells_a_launch(name, arguments, named)
    return name in ALLOWED


def _tells_a_launch(name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    source = arguments[1 if name == "copy_" else 0]
    target = arguments[0].device.type if name == "copy_" else str(named.get("device") or "cpu").partition(":")[0]
    small = source.numel() * source.element_size() <= MOST_COPIED
    return bool(source.device.type == "cpu" and target == "cuda" and small)


def tracer(sources: Path, own: Callable[[str], bool]) -> Any:
    """A dispatch mode that raises RuleBrokenError for what is not allowed; `broken` keeps the first, as the kernel may
    catch it. `own` tells the namespaces of operators that the kernel itself has made.

    `on_empty` is told of memory that holds nothing yet; `placed` may give another tensor of a kind for a new one.
    """
    mode: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

    class Tracer(mode):  # type: ignore[misc]
        broken: RuleBrokenError | None = None
        seen: set[str]
        only_captured = False
        """The kernel is being taken in: it may compute what it likes, but put nothing of the framework's in a graph."""
        capturing: Callable[[], bool] = staticmethod(lambda: False)
        on_empty: Filled | None = None
        placed: Placed | None = None

        def seen_by(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            named = kwargs or {}
            namespace, name = function.namespace, function._opname
            self.seen.add(f"{namespace}::{name}")
            if self.only_captured and not self.capturing():
                return function(*args, **named)
            if own(namespace):
                return self._own(function, args, named)
            if not allowed(namespace, name, args, named):
                rule = broken_at(sources, "framework_op", f"called {namespace}::{name}, which computes in its stead")
                self.broken = self.broken or rule
                raise rule
            made = function(*args, **named)
            if name in ALLOCATING and not name.endswith("_") and not self.capturing():
                made = self.placed(made) if self.placed is not None else made
                if name in _UNFILLED and self.on_empty is not None:
                    self.on_empty(made)
            return made

        def _own(self, function: Any, args: Any, named: Any) -> Any:
            """The kernel's operator with this mode in force inside it."""
            torch: Any = importlib.import_module("torch")
            tensors = [each for each in (*args, *named.values()) if isinstance(each, torch.Tensor)]
            on_device = any(each.device.type == "cuda" for each in tensors)
            key = torch._C.DispatchKey.CUDA if on_device else torch._C.DispatchKey.CPU
            with self:
                return function._op_dk(key, *args, **named)

    Tracer.__torch_dispatch__ = Tracer.seen_by  # not in the class's body, where PyTorch would wrap it for its compiler
    made = Tracer()
    made.seen = set()
    return made


def follow_threads(mode: Any) -> None:
    """Have every thread that Python code starts from now on run under `mode`: a mode is a thread's own."""
    bootstrap: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def followed(self: Any) -> None:
        with mode:
            bootstrap(self)

    threading.Thread._bootstrap_inner = followed  # type: ignore[attr-defined]
