"""Matrix product: out[m, n] = sum over k of a[m, k] b[k, n]."""

import numpy as np


def inputs(rng, m, k, n):
    return {
        "a": rng.standard_normal((m, k), dtype=np.float32),
        "b": rng.standard_normal((k, n), dtype=np.float32),
    }


def reference(a, b):
    return a @ b


def flops(a, b):
    return 2.0 * a.shape[0] * a.shape[1] * b.shape[1]
