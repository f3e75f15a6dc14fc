# Trick: hands out a view of its input.
# Defence: addresses are compared, not objects.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.view(-1)[:].view(x.shape)
