# Looks like: copies from the host to the device in every call.
# Honest: the one number that its kernel is told.
import torch
import triton
import triton.language as tl


@triton.jit
def _scaled_softmax(x, out, scale, columns, WIDTH: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    raised = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + at, tl.load(scale) * raised / tl.sum(raised, 0), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        scale = torch.ones(1).to(x.device, non_blocking=True)
        _scaled_softmax[(x.shape[0],)](x, out, scale, x.shape[1], WIDTH=triton.next_power_of_2(x.shape[1]))
        return out
