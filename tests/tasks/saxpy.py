"""Scaled sum of two vectors: a task in one NumPy file with a starting kernel beside it."""

import numpy as np

SIZE = 4096


def inputs(rng, offset=0.0):
    return {
        "x": rng.standard_normal(SIZE, dtype=np.float32),
        "y": rng.standard_normal(SIZE, dtype=np.float32) + np.float32(offset),
        "factor": float(rng.uniform(1, 2)),
    }


def reference(x, y, factor):
    return x * factor + y


def flops(x, y, factor):
    return 2 * x.size
