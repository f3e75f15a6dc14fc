"""Leaves the interpreter when it is loaded."""

import sys

sys.exit(0)


def inputs(rng):
    return {"x": rng.standard_normal(8)}


def reference(x):
    return 2 * x
