# Trick: the framework's operator by the name that it has inside.
# Defence: as f3_method.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aten._softmax.default(x, 1, False)
