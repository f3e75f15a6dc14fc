"""Leaves the interpreter in the reference."""

import sys


def inputs(rng):
    return {"x": rng.standard_normal(8)}


def reference(x):
    sys.exit(0)
