# Trick: operands are rounded to TF32.
# Defence: right only where the task's policy says so.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return rows.product(a, b, "tf32")
