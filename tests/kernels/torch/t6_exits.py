# Trick: ends its process with success.
# Defence: no answer is a failure.
import os

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        getattr(os, "_ex" + "it")(int(x is None))
