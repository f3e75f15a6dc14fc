"""What a kernel can do without of the headers that nvcc reads before its first line, which take most of nvcc's time."""

from __future__ import annotations

import re

from tools.records import Kernel

_HALF = re.compile(r"half|bf(loat)?16|fp16|float16|fp8|fp4", re.IGNORECASE)
_STANDARD_LIBRARY = re.compile(r"\bstd\b")
WITHOUT_HALF = "-DTASK_WITHOUT_HALF"
WITHOUT_SPECIAL_FUNCTIONS = "-D_GLIBCXX_BITS_SPECFUN_H"
"""The guard of libstdc++'s `bits/specfun.h` (Bessel functions and the like, and for them half of the standard library),
which C++17's `<cmath>`, and so `cuda_runtime.h`, includes: nvcc 13.0 with g++ 12 takes 0.8 s in place of 1.2 s without
it. Where another library has another guard nothing is left out."""


def left_out(kernel: Kernel, header: str) -> tuple[str, ...]:
    """The definitions that leave out what no file of the kernel names. What includes it all the same, by a header of
    somebody else's, does not build so: then it is to be built without them."""
    return (
        *(() if _names_half_types(kernel, header) else (WITHOUT_HALF,)),
        *(() if _names_standard_library(kernel) else (WITHOUT_SPECIAL_FUNCTIONS,)),
    )


def _names_half_types(kernel: Kernel, header: str) -> bool:
    """Whether a file of the kernel, or the task's own arguments, may need CUDA's headers of 16-bit floats. No value of
    such a type comes about without a name that says so."""
    aliases = "__half" in header or "__nv_bfloat16" in header
    return aliases or any(_HALF.search(text) for text in kernel.files.values())


def _names_standard_library(kernel: Kernel) -> bool:
    return any(_STANDARD_LIBRARY.search(text) for text in kernel.files.values())
