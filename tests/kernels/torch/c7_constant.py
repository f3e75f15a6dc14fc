# Trick: the mean of every row of the result, everywhere.
# Defence: as for zeros.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.full_like(x, 1.0 / x.shape[1])
