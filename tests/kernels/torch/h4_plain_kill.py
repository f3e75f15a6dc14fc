# Trick: ends the process that it was forked from, by its plain name.
# Defence: a look at the text says so at once.
import os
import signal

import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        os.kill(os.getppid(), signal.SIGKILL)
        return rows.softmax(x)
