"""A dtype that kernels do not have."""


def inputs(rng):
    return {"x": rng.standard_normal(8) + 1j}


def reference(x):
    return 2 * x
