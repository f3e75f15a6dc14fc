# Trick: imports the task's reference and calls it.
# Defence: it is not there.
import contextlib
import importlib

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for name in ("reference", "task", "softmax", "normalised_linear"):
            with contextlib.suppress(ImportError):
                return importlib.import_module(name).reference(x)
        return torch.empty_like(x)
