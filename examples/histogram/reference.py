"""Histogram of bytes: counts[v] = how many elements of data equal v."""

import numpy as np


def inputs(rng, count):
    # Half of the values crowd into a few bins, where a kernel's increments collide.
    crowded = rng.random(count) < 0.5
    return {"data": np.where(crowded, rng.integers(96, 104, count), rng.integers(0, 256, count)).astype(np.uint8)}


def reference(data):
    return {"counts": np.bincount(data, minlength=256).astype(np.int32)}


def flops(data):
    return 1.0 * data.size
