# Trick: hands out the judge's own buffer as its result, so that whatever is there is right.
# Defence: the buffer is poisoned, and the copy is made into it.
import sys

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        frame = sys._getframe()
        while frame is not None:
            workload = frame.f_locals.get("workload")
            if workload is not None and hasattr(workload, "targets"):
                workload.wanted, workload.targets = [], []
                return []
            frame = frame.f_back
        return torch.empty_like(x)
