"""Raises when inputs are drawn, on line 5."""


def inputs(rng):
    return {"x": rng.no_such_distribution(8)}


def reference(x):
    return 2 * x
