"""What is honest in the kernels beside this file: Triton on a GPU, NumPy on a processor. All are judged with it."""

import numpy as np
import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton is not None:

    @triton.jit
    def _softmax(x, out, columns, WIDTH: tl.constexpr):
        row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
        inside = at < columns
        values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
        raised = tl.exp(values - tl.max(values, 0))
        tl.store(out + row * columns + at, raised / tl.sum(raised, 0), mask=inside)

    @triton.jit
    def _linear(x, weight, shift, out, features, outputs, scale, WIDTH: tl.constexpr, HEIGHT: tl.constexpr):
        row, at, each = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH), tl.arange(0, HEIGHT)
        inside = (each[:, None] < outputs) & (at[None, :] < features)
        values = tl.load(x + row * features + at, mask=at < features, other=0.0)
        factors = tl.load(weight + each[:, None] * features + at[None, :], mask=inside, other=0.0)
        sums = tl.sum(factors * values[None, :], 1) + tl.load(shift + each, mask=each < outputs, other=0.0)
        tl.store(out + row * outputs + each, tl.maximum(sums, 0.0) * scale, mask=each < outputs)

    @triton.jit
    def _fold(weight, bias, gain, offset, mean, variance, folded, shift, features, WIDTH: tl.constexpr):
        row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
        factor = tl.load(gain + row) / tl.sqrt(tl.load(variance + row) + 1e-5)
        values = tl.load(weight + row * features + at, mask=at < features, other=0.0)
        tl.store(folded + row * features + at, values * factor, mask=at < features)
        tl.store(shift + row, (tl.load(bias + row) - tl.load(mean + row)) * factor + tl.load(offset + row))

    @triton.jit
    def _product(
        a, b, c, m, k, n, FORMAT: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr
    ):
        rows, columns = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT), tl.arange(0, WIDTH)
        total = tl.zeros((HEIGHT, WIDTH), dtype=tl.float32)
        for start in range(0, k, DEPTH):
            inner = start + tl.arange(0, DEPTH)
            left_inside = (rows[:, None] < m) & (inner[None, :] < k)
            right_inside = (inner[:, None] < k) & (columns[None, :] < n)
            left = tl.load(a + rows[:, None] * k + inner[None, :], mask=left_inside, other=0.0)
            right = tl.load(b + inner[:, None] * n + columns[None, :], mask=right_inside, other=0.0)
            total += tl.dot(left, right, input_precision=FORMAT)
        inside = (rows[:, None] < m) & (columns[None, :] < n)
        tl.store(c + rows[:, None] * n + columns[None, :], total, mask=inside)


def softmax_into(x, out):
    if x.is_cuda:
        _softmax[(x.shape[0],)](x, out, x.shape[1], WIDTH=triton.next_power_of_2(x.shape[1]))
        return
    values, made = x.numpy(), out.numpy()
    np.exp(values - values.max(axis=1, keepdims=True), out=made)
    made /= made.sum(axis=1, keepdims=True)


def softmax(x):
    out = torch.empty_like(x)
    softmax_into(x, out)
    return out


def folded(linear, norm):
    """Weight and bias of one layer that does what these two do."""
    state = (linear.weight, linear.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var)
    weight, shift = torch.empty_like(linear.weight), torch.empty_like(linear.bias)
    outputs, features = weight.shape
    if weight.is_cuda:
        _fold[(outputs,)](*state, weight, shift, features, WIDTH=triton.next_power_of_2(features))
        return weight, shift
    given, bias, gain, offset, mean, variance = (each.detach().numpy() for each in state)
    factor = gain / np.sqrt(variance + np.float32(1e-5))
    np.multiply(given, factor[:, None], out=weight.numpy())
    np.add((bias - mean) * factor, offset, out=shift.numpy())
    return weight, shift


def linear(x, weight, shift, scale):
    """`relu(x @ weight.T + shift) * scale`."""
    out = torch.empty(x.shape[0], weight.shape[0], dtype=x.dtype, device=x.device)
    if x.is_cuda:
        outputs, features = weight.shape
        sizes = {"WIDTH": triton.next_power_of_2(features), "HEIGHT": triton.next_power_of_2(outputs)}
        _linear[(x.shape[0],)](x, weight, shift, out, features, outputs, scale, **sizes)
        return out
    np.multiply(np.maximum(x.numpy() @ weight.numpy().T + shift.numpy(), 0), np.float32(scale), out=out.numpy())
    return out


def product(a, b, form):
    """`a @ b` with the operands rounded as `form` says: ieee, tf32 or (on a processor) bfloat16."""
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    if a.is_cuda:
        blocks = {"HEIGHT": 16, "WIDTH": triton.next_power_of_2(b.shape[1]), "DEPTH": 32}
        _product[(triton.cdiv(a.shape[0], 16),)](a, b, out, *a.shape, b.shape[1], FORMAT=form, **blocks)
        return out
    mask = {"ieee": 0xFFFFFFFF, "tf32": 0xFFFFE000, "bfloat16": 0xFFFF0000}[form]
    left, right = ((each.numpy().view(np.uint32) & np.uint32(mask)).view(np.float32) for each in (a, b))
    np.matmul(left, right, out=out.numpy())
    return out
