"""The ten kernels of tests/golden/h200/zoo, each as a kernel of one task, so that each is profiled alone.

What they compute is not what the task asks for: a profile says nothing about that. Their launches are those of `main`
in zoo.cu, on half as many elements.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tools.records import Kernel
from tools.task import TaskSource, WorkloadSpec

ZOO = Path(__file__).resolve().parents[1] / "golden/h200/zoo/zoo.cu"
ELEMENTS = 1 << 25

REFERENCE = """
import numpy as np

def inputs(rng, size):
    return {"x": rng.random(size, dtype=np.float32)}

def reference(x):
    return {"y": 2 * x}
"""


class Known(NamedTuple):
    """A kernel of the zoo: what is written beside it, what a profile must call it, and how it is launched."""

    name: str
    comment: str
    bottleneck: str
    cause: str
    launch: str


KNOWN = (
    Known(
        "coalesced_copy",
        "DRAM-bandwidth bound",
        "memory",
        "dram_bandwidth",
        "coalesced_copy<<<n / 4 / 256, 256, 0, stream>>>((float4*)y, (const float4*)x, n / 4);",
    ),
    Known(
        "strided_copy",
        "uncoalesced loads: 1 useful float a sector",
        "memory",
        "uncoalesced",
        "strided_copy<<<n / 256, 256, 0, stream>>>(y, x, n, 33);",
    ),
    Known(
        "bank_conflict_transpose",
        "32-way shared-memory bank conflicts",
        "memory",
        "bank_conflicts",
        "bank_conflict_transpose<<<dim3(4096 / 32, 4096 / 32), dim3(32, 32), 0, stream>>>(y, x, 4096);",
    ),
    Known(
        "register_spill",
        "256 live values, 64 registers",
        "memory",
        "register_spills",
        "register_spill<<<n / 32 / 1024, 1024, 0, stream>>>(y, x, n);",
    ),
    Known(
        "naive_matmul",
        "L1/latency bound, no reuse in shared memory",
        "memory",
        "l1_bandwidth",
        "naive_matmul<<<dim3(64, 64), dim3(16, 16), 0, stream>>>(y, x, x + 1024 * 1024, 1024);",
    ),
    Known(
        "divergent",
        "each lane takes its own path",
        "compute",
        "divergence",
        "divergent<<<n / 8 / 256, 256, 0, stream>>>(y, x, n / 8);",
    ),
    Known(
        "fma_bound",
        "fp32 pipe bound",
        "compute",
        "compute_pipe",
        "fma_bound<<<n / 8 / 256, 256, 0, stream>>>(y, x, n / 8);",
    ),
    Known(
        "atomic_contention",
        "all threads on 4 addresses",
        "latency",
        "atomics",
        "atomic_contention<<<n / 8 / 256, 256, 0, stream>>>((unsigned*)y, x, n / 8);",
    ),
    Known(
        "low_occupancy",
        "one small block an SM: 200 KB of dynamic shared memory",
        "latency",
        "low_occupancy",
        "cudaFuncSetAttribute(low_occupancy, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);\n"
        "    low_occupancy<<<n / 64, 64, 200 * 1024, stream>>>(y, x, n);",
    ),
    Known(
        "tiny_launch",
        "too little work for the chip",
        "overhead",
        "small_grid",
        "tiny_launch<<<4, 32, 0, stream>>>(y);",
    ),
)


def task() -> TaskSource:
    """One input and one output of `ELEMENTS` floats."""
    return TaskSource(
        name="zoo",
        kind="numpy",
        entry="zoo.py",
        files={"zoo.py": REFERENCE},
        workloads=(WorkloadSpec(name="zoo", parameters={"size": ELEMENTS}),),
    )


def kernel(known: Known) -> Kernel:
    """zoo.cu without its `main`, launching one of its kernels."""
    text = ZOO.read_text().partition("int main()")[0]
    solve = f"""
extern "C" void solve(const task::Args& args, void*, task::Stream stream) {{
    const float* x = args.x;
    float* y = args.y;
    const long n = {ELEMENTS};
    (void)x, (void)n;
    {known.launch}
}}
"""
    return Kernel(language="cuda", files={"kernel.cu": f'#include "task.h"\n{text}{solve}'})
