import numpy as np


def matrix(rng, rows, columns):
    return rng.random((rows, columns), dtype=np.float32)
