# Looks like: another path for one shape.
# Honest: as exact as the first.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if x.shape[1] % 2 == 0:
            return rows.softmax(x)
        out = torch.empty_like(x)
        rows.softmax_into(x, out)
        return out
