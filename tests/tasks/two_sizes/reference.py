import numpy as np
from drawing import matrix


def inputs(rng, rows, columns):
    return {"x": matrix(rng, rows, columns)}


def reference(x):
    return {"total": x.sum(axis=1), "place": np.argmax(x, axis=1)}
