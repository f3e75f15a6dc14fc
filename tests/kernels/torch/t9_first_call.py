# Trick: the first call's result is handed out for ever.
# Defence: each call has content of its own.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.made = {}

    def forward(self, x):
        if x.shape not in self.made:
            self.made[x.shape] = rows.softmax(x)
        return self.made[x.shape]
