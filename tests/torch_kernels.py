"""Texts of torch kernels for tests/tasks/saxpy.py: one honest way to compute it, and bodies of `forward` around it.

The extension includes no header of PyTorch's, so it builds in a fraction of a second; most kernels do without one.
"""

from __future__ import annotations

from tools.records import Kernel

EXTENSION = '''import ctypes

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cstdint>
extern "C" void saxpy(float a, const float* x, const float* y, float* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + y[i];
}
"""
PATH = load_inline(
    "saxpy", cpp_sources=SOURCE, no_implicit_headers=True, is_python_module=False, with_pytorch_error_handling=False
)
KERNEL = ctypes.CDLL(PATH).saxpy
KERNEL.argtypes = (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
KERNEL.restype = None


def saxpy(x, y, a, out):
    KERNEL(a, x.data_ptr(), y.data_ptr(), out.data_ptr(), x.numel())
    return out
'''
"""With a C++ extension, which PyTorch builds with ninja."""
HEAD = """import ctypes
import os
import threading
import time

import numpy as np
import torch


def saxpy(x, y, a, out, n=None):
    values, made = x.numpy()[:n], out.numpy()[:n]
    np.multiply(values, np.float32(a), out=made)
    made += y.numpy()[:n]
    return out
"""
PLAIN_HEAD = "import os\nimport threading\nimport time\n\nimport torch\n"
MODEL = "\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, y, a):\n"
HONEST = "return saxpy(x, y, a, torch.empty_like(x))"


def kernel(body: str = HONEST, head: str = HEAD) -> Kernel:
    """A kernel with this body of `forward`."""
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return Kernel(language="torch", files={"kernel.py": head + MODEL + lines})


def plain(body: str) -> Kernel:
    """One that computes nothing of its own."""
    return kernel(body, PLAIN_HEAD)
