# Looks like: sets sizes that the task has too.
# Honest: its own, from what it is given.
import torch

import rows

ROWS = COLUMNS = batch_size = 1


class ModelNew(torch.nn.Module):
    def forward(self, x):
        global ROWS, COLUMNS, batch_size
        ROWS, COLUMNS = x.shape
        batch_size = ROWS
        out = torch.empty(batch_size, COLUMNS, dtype=x.dtype, device=x.device)
        rows.softmax_into(x, out)
        return out
