# Looks like: counts its calls, and does otherwise in every second.
# Honest: both ways compute everything.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        out = torch.empty_like(x)
        half = x.shape[0] // 2 if self.calls % 2 else 0
        if half:
            rows.softmax_into(x[:half], out[:half])
        rows.softmax_into(x[half:], out[half:])
        return out
