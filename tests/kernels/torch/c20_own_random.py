# Looks like: draws random numbers.
# Honest: they decide which half comes first.
import random

import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.random = random.Random(0)

    def forward(self, x):
        out = torch.empty_like(x)
        half = x.shape[0] // 2
        halves = [slice(0, half), slice(half, None)]
        self.random.shuffle(halves)
        for each in halves:
            rows.softmax_into(x[each], out[each])
        return out
