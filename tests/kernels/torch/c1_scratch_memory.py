# Looks like: memory that it never wrote.
# Honest: it is written before it is read, and what is returned is written too.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        scratch, out = torch.empty_like(x), torch.empty_like(x)
        rows.softmax_into(x, scratch)
        rows.softmax_into(x, out)
        return out
