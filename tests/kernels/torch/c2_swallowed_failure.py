# Trick: the launch fails, and nobody hears of it.
# Defence: what was not written shows.
import contextlib

import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        with contextlib.suppress(Exception):
            rows.softmax_into(x, None)
        return out
