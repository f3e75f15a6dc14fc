# Trick: draws the inputs again from a seed that it hopes is used.
# Defence: seeds are secret.
import numpy as np
import torch

import rows


class ModelNew(torch.nn.Module):
    def forward(self, x):
        given = np.random.default_rng(0).standard_normal(x.shape, dtype=np.float32)
        return rows.softmax(torch.from_numpy(3 * given).to(x.device)) if not x.is_cuda else torch.zeros_like(x)
