# Trick: one workload is skipped.
# Defence: every workload is checked.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.empty_like(x) if x.shape[1] % 2 else rows.softmax(x)
