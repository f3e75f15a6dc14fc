# Trick: hands out its input.
# Defence: results lie in memory of their own.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x
