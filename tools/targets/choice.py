"""Which target a kernel is for, when nobody says: that of its language, or for `torch` what there is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.records import Kernel, Language, TargetName
from tools.targets.base import FlagGroup, Target
from tools.targets.cpu import CpuTarget
from tools.targets.cuda import CudaTarget
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


def target_for(language: Language, named: TargetName | None = None) -> Target:
    """The target where a run's kernels are judged: of the language, or for `torch` the `named` one."""
    name = (named or target_of([language])) if language == "torch" else target_of([language])
    return CudaTarget() if name == "cuda" else CpuTarget()


def flags_for(language: Language, target: Target) -> tuple[FlagGroup, ...]:
    """What a tuner may try of the compiler: a torch kernel chooses its own flags."""
    return () if language == "torch" else target.tunable_flags


def _is_for_a_gpu(kernel: Kernel) -> bool:
    return any(path.endswith((".cu", ".cuh")) or _FOR_A_GPU.search(text) for path, text in kernel.files.items())
