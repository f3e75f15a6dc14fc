# Trick: no largest element is taken off: right for inputs of a few units.
# Defence: several distributions, with far larger ones.
import numpy as np
import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton is not None:

    @triton.jit
    def raw_softmax(x, out, columns, WIDTH: tl.constexpr):
        row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
        inside = at < columns
        raised = tl.exp(tl.load(x + row * columns + at, mask=inside, other=-float("inf")))
        tl.store(out + row * columns + at, raised / tl.sum(raised, 0), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        if x.is_cuda:
            raw_softmax[(x.shape[0],)](x, out, x.shape[1], WIDTH=triton.next_power_of_2(x.shape[1]))
            return out
        raised = np.exp(x.numpy())
        np.divide(raised, raised.sum(axis=1, keepdims=True), out=out.numpy())
        return out
