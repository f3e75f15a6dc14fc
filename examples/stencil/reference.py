"""Heat equation: in each step every inner cell moves by `rate` times the sum of its differences to its neighbours."""

import numpy as np


def inputs(rng, height, width, steps):
    return {"grid": rng.standard_normal((height, width), dtype=np.float32), "rate": 0.2, "steps": steps}


def reference(grid, rate, steps):
    now = grid
    for _ in range(steps):
        inner = now[1:-1, 1:-1]
        around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        then = now.copy()
        then[1:-1, 1:-1] = inner + rate * (around - 4 * inner)
        now = then
    return now


def flops(grid, steps, **_):
    return 7.0 * steps * grid.size
