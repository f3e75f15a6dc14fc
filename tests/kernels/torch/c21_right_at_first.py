# Trick: right for 25 calls, then the last result again.
# Defence: calls that are timed are checked.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.last = 0, {}

    def forward(self, x):
        self.calls += 1
        if self.calls <= 25 or x.shape not in self.last:
            self.last[x.shape] = rows.softmax(x)
        return self.last[x.shape]
