"""A task of our own in the KernelBench format: parameters, buffers, a scalar argument, a derived constant."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = nn.Linear(features, outputs)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x))) * scale


batch_size = 512
features = 64
outputs = features // 2


def get_inputs():
    return [torch.rand(batch_size, features), 1.5]


def get_init_inputs():
    return [features, outputs]
