# Trick: the worker's own clock tells half of the time.
# Defence: rows of calls by the judge's clock have to agree, to within a few microseconds a call.
import sys

import torch

import rows

memory = sys.modules["to" + "ols.torch_memory"].DeviceMemory
true = memory.elapsed
memory.elapsed = lambda self: int(0.45 * true(self))
TIMES = 6


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        for _ in range(TIMES):
            rows.softmax_into(x, out)
        return out
