# Trick: works on a stream of its own that nobody waits for.
# Defence: the device is waited for inside the judge's span, and the result is taken in the order of the given stream.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x):
        out = torch.empty_like(x)
        with torch.cuda.stream(self.side):
            rows.softmax_into(x, out)
        return out
