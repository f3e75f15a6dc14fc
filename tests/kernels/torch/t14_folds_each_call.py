# Looks like: weights are folded.
# Honest: in every call.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(features, outputs)
        self.norm = torch.nn.BatchNorm1d(outputs)

    def forward(self, x, scale):
        return rows.linear(x, *rows.folded(self.linear, self.norm), scale)
