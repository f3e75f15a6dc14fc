# Trick: the sizes that the worker goes by are made smaller.
# Defence: sizes are the judge's, and so is the memory that it compares.
import gc

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for worker in gc.get_objects():
            if type(worker).__name__ == "Wanted":
                object.__setattr__(worker, "nbytes", 16)
                object.__setattr__(worker, "shape", (1, 4))
        return torch.zeros(1, 4, device=x.device)
