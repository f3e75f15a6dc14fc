# Looks like: writes one half of the rows.
# Honest: and then the other.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        half = x.shape[0] // 2
        rows.softmax_into(x[:half], out[:half])
        rows.softmax_into(x[half:], out[half:])
        return out
