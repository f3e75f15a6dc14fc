"""CUDA kernels that compute nothing, made for the signature of any task: no judge may accept one."""

from __future__ import annotations

from collections.abc import Iterator

from tools.contract import Signature
from tools.records import Kernel

_WRONG = """// Generated: {what}.
#include "task.h"
#include <cstdint>

template <typename T>
__global__ void fill(T* out, const T* from, T value, int64_t count) {{
    const int64_t i = blockIdx.x * int64_t{{256}} + threadIdx.x;
    if (i < count) out[i] = from == nullptr ? value : from[i];
}}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {{
    (void)args;
{launches}
}}
"""
_LAUNCH = "    fill<{type}><<<{blocks}, 256, 0, stream>>>(args.{out}, {given}, static_cast<{type}>({value}), {count});"
_TYPES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "bool": "bool"}


def wrong_kernels(signature: Signature) -> Iterator[tuple[str, Kernel]]:
    """Kernels that compute nothing: zeros, a constant, and where the sizes allow it a copy of an input."""
    first = signature.outputs[0]
    like = [t.name for t in signature.input_tensors if t.dtype == first.dtype and t.size >= first.size]
    makings = [("zeros", 0, ""), ("a constant", 1, ""), *((f"a copy of {name}", 0, name) for name in like[:1])]
    for what, value, given in makings:
        launches = "\n".join(
            _LAUNCH.format(
                type=_TYPES[out.dtype],
                blocks=-(-out.size // 256),
                out=out.name,
                given=f"args.{given}" if given and out is first else "nullptr",
                value=value,
                count=out.size,
            )
            for out in signature.outputs
        )
        text = _WRONG.format(what=what, launches=launches)
        yield what.split(" of ")[0], Kernel(language="cuda", files={"kernel.cu": text})
