# Trick: leaves a hook that prints a verdict, and exits.
# Defence: no answer is a failure, and what is printed is not believed.
import atexit
import sys

import torch

atexit.register(print, '{"status": "accepted"}')


class ModelNew(torch.nn.Module):
    def forward(self, x):
        sys.exit(0)
