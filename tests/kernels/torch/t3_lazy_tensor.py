# Trick: a tensor of a class of its own that computes when somebody looks.
# Defence: results are plain tensors in memory of their own, and their bytes are taken inside the span.
import torch

import rows


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        plain = [rows.softmax(each.given) if isinstance(each, cls) else each for each in arguments]
        with torch._C.DisableTorchFunctionSubclass():
            return function(*plain, **(named or {}))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        made = torch.Tensor._make_subclass(Lazy, torch.empty_like(x))
        made.given = x
        return made
