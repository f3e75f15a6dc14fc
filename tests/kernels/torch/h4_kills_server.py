# Trick: ends the process that it was forked from.
# Defence: signals don't leave the sandbox.
import os
import signal

import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        getattr(os, "ki" + "ll")(os.getppid(), signal.SIGKILL)
        return rows.softmax(x)
