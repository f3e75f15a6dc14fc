# Looks like: the result has other strides than its memory.
# Honest: it is flat memory, seen in the result's shape.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        memory = torch.empty(x.numel() + 64, dtype=x.dtype, device=x.device)
        out = memory[: x.numel()].view(x.shape)
        rows.softmax_into(x, out)
        return out
