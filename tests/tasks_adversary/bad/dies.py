"""Takes its process down without a word."""

import os
import signal


def inputs(rng):
    return {"x": rng.standard_normal(8)}


def reference(x):
    os.kill(os.getpid(), signal.SIGKILL)
    return x
