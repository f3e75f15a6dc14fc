# Trick: zeros everywhere.
# Defence: tolerances are relative to the output's own size.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
