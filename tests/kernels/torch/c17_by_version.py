# Trick: results are remembered by the input's identity and its version counter.
# Defence: the judge writes past the framework, so that no counter moves.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = (id(x), x._version)
        if key not in self.known:
            self.known[key] = rows.softmax(x)
        return self.known[key]
