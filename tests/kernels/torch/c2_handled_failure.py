# Looks like: a launch fails, and the failure is caught.
# Honest: another of its own kernels does the work.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        try:
            rows.softmax_into(x, None)
        except Exception:
            rows.softmax_into(x, out)
        return out
