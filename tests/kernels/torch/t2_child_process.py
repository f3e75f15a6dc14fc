# Trick: a child process works, in memory that it shares.
# Defence: there are no child processes.
import os
import time

import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        if getattr(os, "fo" + "rk")() == 0:
            rows.softmax_into(x, out)
            time.sleep(3600)
        return out
