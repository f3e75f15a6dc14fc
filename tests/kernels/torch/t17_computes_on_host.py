# Trick: the inputs go to the host and the results come back, beside what a clock of the device sees.
# Defence: copies of tensors are operators of the framework, and the judge's clock sees the host.
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=x.dtype)
        rows.softmax_into(x.cpu(), out)
        return out.to(x.device)
