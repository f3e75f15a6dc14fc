# Looks like: works on a stream of its own.
# Honest: the given stream waits for it.
import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x):
        given = torch.cuda.current_stream()
        self.side.wait_stream(given)
        out = torch.empty_like(x)
        with torch.cuda.stream(self.side):
            rows.softmax_into(x, out)
        given.wait_stream(self.side)
        return out
