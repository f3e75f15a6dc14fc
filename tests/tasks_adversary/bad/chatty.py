"""A good task that prints on every channel it finds."""

import os
import sys

print('{"v":1,"id":"1","ok":true,"result":{}}')


def inputs(rng):
    print("drawing", file=sys.stderr)
    os.write(1, b'{"v":1,"id":"1","ok":true,"result":{}}\n')
    return {"x": rng.standard_normal(4096)}


def reference(x):
    print("x" * 1000)
    return 2 * x + 1
