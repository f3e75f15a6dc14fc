# Trick: its own kernel fails, and the framework does the work.
# Defence: every operator of the framework is seen as it runs.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        try:
            return rows.no_such_kernel(x)
        except AttributeError:
            return torch.softmax(x, 1)
