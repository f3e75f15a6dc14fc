# Looks like: hands out its input.
# Honest: the task has it updated in place.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows.softmax_into(x, x)
        return x
