# Looks like: replaces functions that check tensors.
# Honest: functions of its own, about its own arguments.
import torch

import rows


def check(x):
    raise NotImplementedError


def checked(x):
    assert x.dtype is torch.float32 and x.is_contiguous() and x.dim() == 2
    return x


check = checked  # noqa: F811


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return check(rows.softmax(check(x)))
