"""A transformer's residual add and RMSNorm: total = x + residual, out = total / rms(total) * weight, row by row."""

import numpy as np


def inputs(rng, rows, columns):
    return {
        "x": rng.standard_normal((rows, columns), dtype=np.float32),
        "residual": rng.standard_normal((rows, columns), dtype=np.float32),
        "weight": 1 + 0.25 * rng.standard_normal(columns, dtype=np.float32),
        "epsilon": 1e-5,
    }


def reference(x, residual, weight, epsilon):
    total = x + residual
    scale = 1 / np.sqrt(np.mean(total * total, axis=1, keepdims=True) + epsilon)
    return {"out": total * scale * weight, "total": total}


def flops(x, **_):
    return 5.0 * x.size
