# Looks like: works in another dtype than the task's.
# Honest: in a wider one, and the result is of the task's.
import numpy as np
import torch

import rows

if rows.triton is not None:
    import triton
    import triton.language as tl

    @triton.jit
    def _wide(x, out, columns, WIDTH: tl.constexpr):
        row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
        inside = at < columns
        values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
        raised = tl.exp((values - tl.max(values, 0)).to(tl.float64))
        tl.store(out + row * columns + at, (raised / tl.sum(raised, 0)).to(tl.float32), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        if x.is_cuda:
            _wide[(x.shape[0],)](x, out, x.shape[1], WIDTH=triton.next_power_of_2(x.shape[1]))
            return out
        wide = np.exp(x.numpy().astype(np.float64) - x.numpy().max(axis=1, keepdims=True))
        out.numpy()[:] = wide / wide.sum(axis=1, keepdims=True)
        return out
