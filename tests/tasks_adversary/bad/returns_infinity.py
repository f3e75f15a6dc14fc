"""Overflows."""

import numpy as np


def inputs(rng):
    return {"x": 1e4 + rng.standard_normal(64)}


def reference(x):
    return np.exp(x)
