"""An array of Python objects."""

import numpy as np


def inputs(rng):
    return {"x": np.array([1, "two", None], dtype=object)}


def reference(x):
    return x
