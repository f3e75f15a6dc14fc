# Looks like: works on a device that it names.
# Honest: the one that its input lies on.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        with torch.cuda.device(x.device.index):
            out = torch.empty(x.shape, dtype=x.dtype, device=f"cuda:{x.device.index}")
            rows.softmax_into(x, out)
        return out
