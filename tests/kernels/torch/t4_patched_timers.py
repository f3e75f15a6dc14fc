# Trick: Python's and the framework's timers and synchronise are replaced.
# Defence: none of them measures anything, and nothing is gained.
import time

import torch

import rows


def nothing(*_, **__):
    return 0.0


for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns"):
    setattr(time, name, nothing)
torch.cuda.synchronize = nothing
torch.cuda.Event.elapsed_time = nothing
torch.cuda.Event.record = nothing


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return rows.softmax(x)
