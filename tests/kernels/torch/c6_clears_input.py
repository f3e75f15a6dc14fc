# Trick: fills the input with zeros.
# Defence: workers have it read-only.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x.zero_()
        return torch.zeros_like(x)
