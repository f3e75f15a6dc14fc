# Looks like: a thread does the work.
# Honest: it is waited for.
import threading

import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        worker = threading.Thread(target=rows.softmax_into, args=(x, out))
        worker.start()
        worker.join()
        return out
