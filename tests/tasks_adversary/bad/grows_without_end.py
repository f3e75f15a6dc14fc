"""Takes memory bit by bit until there is none."""

import numpy as np


def inputs(rng):
    return {"x": rng.standard_normal(8)}


def reference(x):
    kept = []
    while True:
        kept.append(np.ones(1 << 27))
    return x
