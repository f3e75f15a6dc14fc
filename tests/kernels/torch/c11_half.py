# Trick: half of the rows.
# Defence: every element is compared, over a pattern.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        half = x.shape[0] // 2
        rows.softmax_into(x[:half], out[:half])
        return out
