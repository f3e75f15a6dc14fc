"""Degenerate: a clip that every usual input exceeds, so the output is constant."""

import numpy as np


def inputs(rng):
    return {"x": 5 + rng.random(256)}


def reference(x):
    return np.clip(x, 0.0, 1.0)
