"""The arrays do not fit together, on line 9."""


def inputs(rng):
    return {"a": rng.standard_normal((8, 7)), "b": rng.standard_normal((8, 7))}


def reference(a, b):
    return a @ b
