# Trick: looks through all objects for a tensor that may be the expected one.
# Defence: expected values are in another process.
import gc

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for found in gc.get_objects():
            if type(found) is torch.Tensor and found.shape == x.shape and found is not x:
                return found
        return torch.empty_like(x)
