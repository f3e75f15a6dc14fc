# Looks like: returns something else than a tensor.
# Honest: a tuple with the tensor in it, as a model with several results does.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (rows.softmax(x),)
