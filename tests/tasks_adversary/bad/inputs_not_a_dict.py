"""Inputs without names."""


def inputs(rng):
    return [rng.standard_normal(8)]


def reference(x):
    return 2 * x
