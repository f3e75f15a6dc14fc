"""A sweep whose space has settings that can't be launched: too many threads, too much shared memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

from recording import Report

from tools.executor import LocalExecutor
from tools.records import Kernel
from tools.task import read_task
from tools.tune import Trial
from tools.tune import tune as sweep

SOFTMAX = Path(__file__).resolve().parents[2] / "examples/softmax"
POINTS = 9
FORESEEN = "bytes of dynamic shared memory"
"""Said of what arithmetic tells before nvcc runs. Of rows in a block it can't: they are known at run time only."""
SOURCE = """// A softmax, a warp a row. Of the settings only SHARED = 0 with 4 or 16 rows can be launched.
// tune: SHARED = 0,65536,307200
// tune: ROWS = 4,16,64
#include "task.h"

#ifndef SHARED
#define SHARED 0
#endif
#ifndef ROWS
#define ROWS 4
#endif

__global__ void softmax(const float* x, float* out, int64_t rows, int64_t columns) {
    const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    x += row * columns, out += row * columns;
    float largest = x[0], sum = 0.0f;
    for (int64_t i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, x[i]);
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    for (int64_t i = threadIdx.x; i < columns; i += 32) sum += expf(x[i] - largest);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    for (int64_t i = threadIdx.x; i < columns; i += 32) out[i] = expf(x[i] - largest) / sum;
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    const unsigned in_block = args.x_d0 > 0 ? ROWS : 1;
    const auto blocks = static_cast<unsigned>((args.x_d0 + in_block - 1) / in_block);
    softmax<<<blocks, dim3(32, in_block), SHARED, stream>>>(args.x, args.out, args.x_d0, args.x_d1);
}
"""
KERNEL = Kernel(language="cuda", files={"kernel.cu": SOURCE})


def invalid_settings() -> Report:
    """Every setting, and what became of it."""

    async def run() -> Report:
        source = read_task(SOFTMAX)
        async with LocalExecutor() as executor:
            await executor.open(source, "cuda")
            found = await sweep(executor, source, KERNEL, None, POINTS)
        rows = [told(trial) for trial in found.trials]
        best = found.assignment.model_dump(mode="json") if found.assignment is not None else None
        return {"points": found.points, "exhausted": found.exhausted, "rows": rows, "best": best}

    found = asyncio.run(run())
    for row in found["rows"]:
        print("invalid", row, flush=True)
    return found


def told(trial: Trial) -> Report:
    """A trial as it is kept."""
    return {
        "settings": trial.assignment.model_dump(mode="json"),
        "seconds": trial.seconds,
        "reason": trial.reason,
        "message": trial.message[:300],
        "foreseen": FORESEEN in trial.message,
    }
