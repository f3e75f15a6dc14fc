"""Has inputs, but nothing to compute."""


def inputs(rng):
    return {"x": rng.standard_normal(8)}
