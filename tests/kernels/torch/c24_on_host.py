# Trick: a tensor on the host.
# Defence: the device is looked at.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros(x.shape, dtype=x.dtype, device="cpu")
