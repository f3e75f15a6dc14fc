# Trick: a thread works when the call has returned.
# Defence: what comes late does not count, and every thread stands still while the judge reads.
import threading
import time

import torch

import rows


def later(x, out):
    time.sleep(0.005)
    rows.softmax_into(x, out)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        threading.Thread(target=later, args=(x, out)).start()
        return out
