# Trick: the right numbers in another order of memory.
# Defence: strides are looked at.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[::-1], dtype=x.dtype, device=x.device)
        return out.t()
