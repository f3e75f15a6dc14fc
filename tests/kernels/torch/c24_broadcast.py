# Trick: one element, seen as a whole matrix.
# Defence: strides are looked at.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.full((1, 1), 1.0 / x.shape[1], device=x.device).expand(x.shape)
