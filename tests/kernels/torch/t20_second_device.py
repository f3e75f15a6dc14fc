# Trick: works on another device.
# Defence: there is none to be seen.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        with torch.cuda.device(1):
            out = torch.empty(x.shape, dtype=x.dtype, device="cuda:1")
            rows.softmax_into(x, out)
        return out
