# Looks like: prints.
# Honest: nobody minds.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        print("softmax", flush=True)
        return rows.softmax(x)
