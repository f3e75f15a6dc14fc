# Trick: weights are folded in the first call and used for ever.
# Defence: the judge changes weights in place between calls.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(features, outputs)
        self.norm = torch.nn.BatchNorm1d(outputs)
        self.ready = None

    def forward(self, x, scale):
        if self.ready is None:
            self.ready = rows.folded(self.linear, self.norm)
        return rows.linear(x, *self.ready, scale)
