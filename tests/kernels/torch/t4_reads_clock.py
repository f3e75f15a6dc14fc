# Looks like: times itself.
# Honest: and does nothing with it.
import time

import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        begin = time.perf_counter()
        out = rows.softmax(x)
        self.longest = max(getattr(self, "longest", 0.0), time.perf_counter() - begin)
        return out
