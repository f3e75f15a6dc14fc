"""The usual way to judge a kernel, for comparison: a torch inline extension, built, checked and timed.

    python torch_inline.py KERNEL.cu TASK.h ROWS COLUMNS

A process of its own, as that way has it: import torch, build, compare with the reference on fresh inputs, time with
events on one input. The order of the steps is that of KernelBench's evaluation; the code is not. Prints JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

CHECKS, WARM_UPS, TIMINGS = 5, 3, 100
BINDING = """
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x) {
    auto out = torch::empty_like(x);
    task::Args args{};
    args.x = x.data_ptr<float>();
    args.out = out.data_ptr<float>();
    solve(args, nullptr, at::cuda::getCurrentCUDAStream());
    return out;
}
"""


def main(kernel: Path, header: Path, rows: int, columns: int) -> None:
    """Do all of it, and say how long each part took."""
    begin = lap = time.perf_counter()
    seconds: dict[str, float] = {}

    def took(what: str) -> None:
        nonlocal lap
        now = time.perf_counter()
        seconds[what], lap = now - lap, now

    import torch
    from torch.utils.cpp_extension import load_inline

    took("import torch")
    text = header.read_text().replace("#pragma once", "") + kernel.read_text().replace('#include "task.h"', "")
    with tempfile.TemporaryDirectory() as folder:
        module = load_inline(
            name="inline_softmax",
            cpp_sources="torch::Tensor forward(torch::Tensor x);",
            cuda_sources=text + BINDING,
            functions=["forward"],
            build_directory=folder,
            with_cuda=True,
        )
        took("build")
        right = True
        for seed in range(CHECKS):
            torch.manual_seed(seed)
            x = torch.rand(rows, columns).cuda()
            expected, found = torch.softmax(x, dim=1), module.forward(x)
            torch.cuda.synchronize()
            right = right and torch.allclose(expected, found, rtol=1e-4, atol=1e-4)
        took("check")
        for _ in range(WARM_UPS):
            module.forward(x)
        times = []
        for _ in range(TIMINGS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            module.forward(x)
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e-3)
        took("time")
    told = {"right": right, "kernel_seconds": statistics.mean(times), "parts": seconds, "torch": torch.__version__}
    print(json.dumps(told | {"seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
