# Looks like: memory is kept by the shape of the input.
# Honest: what is in it is computed in every call.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.room = {}

    def forward(self, x):
        if x.shape not in self.room:
            self.room[x.shape] = torch.empty_like(x)
        rows.softmax_into(x, self.room[x.shape])
        return self.room[x.shape]
