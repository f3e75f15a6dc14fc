# Trick: the dispatcher's modes are switched off around the framework's operator.
# Defence: the profiler sees what the dispatcher does not.
import torch
from torch.utils._python_dispatch import _disable_current_modes


class ModelNew(torch.nn.Module):
    def forward(self, x):
        with _disable_current_modes():
            return torch.softmax(x, 1)
