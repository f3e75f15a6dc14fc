"""Which target a kernel is for, when nobody says: that of its language, or for `torch` what there is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.records import Kernel, Language, TargetName
from tools.targets.cuda_toolkit import find_devices

_FOR_A_GPU = re.compile(r"\b__global__\b|^\s*(?:import|from)\s+(?:triton|cupy)\b|\bcuda_sources\s*=", re.MULTILINE)
"""What only a kernel for a GPU has. It decides nothing but whether such a kernel is refused or not judged at all where
there is no GPU."""


def target_of(languages: Sequence[Language], kernels: Sequence[Kernel] = ()) -> TargetName:
    """`torch` runs on both targets: on a GPU where there is one, or where the kernel is plainly for one."""
    if "cuda" in languages:
        return "cuda"
    if "torch" in languages and (find_devices() or any(map(_is_for_a_gpu, kernels))):
        return "cuda"
    return "cpu"


def _is_for_a_gpu(kernel: Kernel) -> bool:
    return any(path.endswith((".cu", ".cuh")) or _FOR_A_GPU.search(text) for path, text in kernel.files.items())
