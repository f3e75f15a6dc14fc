# Trick: 16-bit floats where 32-bit ones are declared.
# Defence: the dtype is looked at.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.empty_like(x, dtype=torch.float16)
