# Looks like: a matrix product.
# Honest: in the task's own precision.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return rows.product(a, b, "ieee")
