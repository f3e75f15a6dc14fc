# Trick: the worker's own clocks, which run in the same interpreter, tell a quarter of the time.
# Defence: the judge's clock, in another process, has to agree.
import sys

import torch

import rows

worker = sys.modules["to" + "ols.torch_memory"]
for memory in (worker.HostMemory, worker.DeviceMemory):
    memory.elapsed = lambda self: 20_000


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range(40):
            out = rows.softmax(x)
        return out
