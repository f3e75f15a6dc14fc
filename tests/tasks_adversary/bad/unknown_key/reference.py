"""A good reference beside a manifest with a misspelt key."""


def inputs(rng):
    return {"x": rng.standard_normal(256)}


def reference(x):
    return 2 * x
