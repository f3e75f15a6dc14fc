# Looks like: reads files and the environment.
# Honest: its own file, and how many threads it may use.
import os
from pathlib import Path

import torch

import rows


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        self.lines = len(Path(__file__).read_text().splitlines())

    def forward(self, x):
        assert self.threads >= 1 and self.lines > 10
        return rows.softmax(x)
