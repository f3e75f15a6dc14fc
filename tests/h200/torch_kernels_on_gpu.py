"""Texts of torch kernels for a GPU: one softmax written three ways, what must be refused, and a layer with a ReLU."""

from __future__ import annotations

CUDA_SOURCE = r"""
__global__ void softmax_rows(const float* x, float* out, int columns) {
    __shared__ float part[32];
    const float* row = x + (size_t)blockIdx.x * columns;
    float* to = out + (size_t)blockIdx.x * columns;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
    for (int s = 16; s; s >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, s));
    if (lane == 0) part[warp] = most;
    __syncthreads();
    most = part[0];
    for (int w = 1; w < warps; ++w) most = fmaxf(most, part[w]);
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - most);
    for (int s = 16; s; s >>= 1) sum += __shfl_xor_sync(~0u, sum, s);
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < warps; ++w) sum += part[w];
    for (int i = threadIdx.x; i < columns; i += blockDim.x) to[i] = expf(row[i] - most) / sum;
}
"""

INLINE = (
    '''import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
'''
    + CUDA_SOURCE
    + '''
torch::Tensor softmax(torch::Tensor x) {
    auto out = torch::empty_like(x);
    softmax_rows<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), (int)x.size(1));
    return out;
}
"""
module = load_inline(
    "softmax_inline", cpp_sources="torch::Tensor softmax(torch::Tensor x);", cuda_sources=CUDA, functions=["softmax"]
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.softmax(x)
'''
)

TRITON = """import torch
import triton
import triton.language as tl


@triton.jit
def softmax_triton(x, out, columns, WIDTH: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    raised = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + at, raised / tl.sum(raised, 0), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_triton[(x.shape[0],)](x, out, x.shape[1], WIDTH=triton.next_power_of_2(x.shape[1]))
        return out
"""

CUPY = (
    '''import cupy
import torch

KERNEL = cupy.RawKernel(r"""
#define INFINITY __int_as_float(0x7f800000)
extern "C" '''
    + CUDA_SOURCE.strip()
    + '''
""", "softmax_rows")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        KERNEL((x.shape[0],), (256,), (x.data_ptr(), out.data_ptr(), cupy.int32(x.shape[1])))
        return out
'''
)

FRAMEWORK = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
"""

BELOW = """import ctypes

import torch

COPY = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}
        for shape in SHAPES:
            x = torch.empty(shape, device="cuda")
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.softmax(x, -1)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = torch.softmax(x, -1)
            self.graphs[shape] = x, graph, out

    def forward(self, x):
        own, graph, out = self.graphs[tuple(x.shape)]
        COPY(ctypes.c_void_p(own.data_ptr()), ctypes.c_void_p(x.data_ptr()), ctypes.c_size_t(4 * x.numel()), None)
        graph.replay()
        return out
"""
"""A graph that holds the framework's kernel: the dispatcher sees nothing of it."""

FAULTING = INLINE.replace("to[i] = expf", "to[i + (1ll << 40)] = expf").replace("softmax_inline", "softmax_faulting")


def _with_fault(statement: str) -> str:
    """The CuPy kernel with a statement before all others."""
    head = "float* out, int columns) {\n"
    assert CUPY.count(head) == 1
    return CUPY.replace(head, f"{head}    {statement}\n")


_TAKES_ALL = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        held, size = [], 1 << 36
        while True:
            try:
                held.append(torch.empty(size, dtype=torch.uint8, device=x.device))
            except torch.OutOfMemoryError:
                if size < 1 << 22:
                    raise
                size //= 2
"""
_LAUNCHES_TOO_MANY = CUPY.replace("(256,)", "(4096,)")
FAULTS = {
    "illegal_address": _with_fault("out[(1ll << 40) + threadIdx.x] = 0.0f;"),
    "misaligned": _with_fault("*(double*)((char*)out + 4) = 0.0;"),
    "device_assert": _with_fault("assert(x[0] == 1.0f);"),
    "trap": _with_fault('if (x[0] != 1.0f) asm volatile("trap;");'),
    "endless": _with_fault("while (((volatile const float*)x)[0] != 1.0f) {}"),
    "refused_launch": _LAUNCHES_TOO_MANY,
    "takes_all_memory": _TAKES_ALL,
}
"""What faults in each call. Some let ones pass, with which a build calls a kernel, so that building is short."""

_PAST_END = (
    CUPY.replace("float* out, int columns) {", "float* out, const float* more, int columns) {")
    .replace("float most = -INFINITY;", "float most = more[100] == 1.25e38f ? 0.0f : -INFINITY;")
    .replace(
        "        out = torch.empty_like(x)\n",
        "        out, more = torch.empty_like(x), torch.ones(100, device=x.device)\n",
    )
    .replace("out.data_ptr(), cupy", "out.data_ptr(), more.data_ptr(), cupy")
)
UNSAFE = {
    "reads_past_end": _PAST_END,
    "reads_nothing": _PAST_END.replace("more[100]", "more[blockIdx.x % 100]").replace("torch.ones(", "torch.empty("),
    "races": CUPY.replace(
        "for (int w = 1; w < warps; ++w) most = fmaxf(most, part[w]);\n    __syncthreads();",
        "for (int w = 1; w < warps; ++w) most = fmaxf(most, part[w]);",
    ),
}
"""Right results all the same: one float behind an array is read, memory that nothing wrote, and shared memory is used
again before every warp has read it."""
SAFE = {"reads_last": _PAST_END.replace("more[100]", "more[99]")}
"""What looks like it."""

_ON_A_SIDE = """        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            softmax_triton["""
SIDE_STREAM = TRITON.replace("        softmax_triton[", _ON_A_SIDE)

WRITES_INPUT = TRITON.replace("(x, out, x.shape[1]", "(x, x, x.shape[1]")

RELU_TASK = """import torch


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(features))
        self.shift = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.relu(x * self.scale + self.shift)


def get_inputs():
    return [torch.randn(4096, 1024)]


def get_init_inputs():
    return [1024]
"""

RELU = """import torch
import triton
import triton.language as tl


@triton.jit
def scaled_relu(x, scale, shift, out, columns, WIDTH: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    inside = at < columns
    value = tl.load(x + row * columns + at, mask=inside)
    value = value * tl.load(scale + at, mask=inside) + tl.load(shift + at, mask=inside)
    tl.store(out + row * columns + at, tl.maximum(value, 0.0), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(features))
        self.shift = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        out = torch.empty_like(x)
        width = triton.next_power_of_2(x.shape[1])
        scaled_relu[(x.shape[0],)](x, self.scale, self.shift, out, x.shape[1], WIDTH=width)
        return out
"""

RELU_FRAMEWORK = """import torch


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(features))
        self.shift = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.relu(x * self.scale + self.shift)
"""
