"""Matrix product in float32 with a long inner dimension: low precision shows."""

import numpy as np


def inputs(rng, m, n, k):
    return {
        "a": rng.standard_normal((m, k)).astype(np.float32),
        "b": rng.standard_normal((k, n)).astype(np.float32),
    }


def reference(a, b):
    return {"c": a @ b}


def flops(a, b):
    return 2.0 * a.shape[0] * a.shape[1] * b.shape[1]
