# Looks like: nothing else.
# Honest: a kernel of its own, and memory of the framework's.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return rows.softmax(x)
