# Trick: results are remembered by the input's address.
# Defence: new content behind the same pointer.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = (x.data_ptr(), x.shape)
        if key not in self.known:
            self.known[key] = rows.softmax(x)
        return self.known[key]
