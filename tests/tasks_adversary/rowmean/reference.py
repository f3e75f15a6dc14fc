"""Mean of each row in float64: near zero for normal data, which statistical shortcuts live on."""


def inputs(rng, rows, cols):
    return {"x": rng.standard_normal((rows, cols))}


def reference(x):
    return {"mean": x.mean(axis=1)}


def flops(x):
    return float(x.size)
