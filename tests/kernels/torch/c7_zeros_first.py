# Looks like: zeros everywhere.
# Honest: before each of them is written.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        rows.softmax_into(x, out)
        return out
