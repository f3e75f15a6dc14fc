"""Small tasks and kernels, as text, for the tests of the judge, its service and its executor."""

from __future__ import annotations

from tools.records import Kernel
from tools.task import TaskSource, WorkloadSpec

SAXPY = """
import numpy as np

def inputs(rng, size=20_000):
    return {"x": rng.standard_normal(size, dtype=np.float32), "y": rng.standard_normal(size, dtype=np.float32)}

def reference(x, y):
    return 2 * x + y

def flops(x, y):
    return 2 * x.size
"""
ASLEEP = SAXPY.replace("    return 2 * x + y", "    import time\n    time.sleep(800)")
"""A reference that does not return within any time a test takes. It is in the stage "reference" all the while."""
WORKLOADS = (
    WorkloadSpec(name="even", weight=2.0, parameters={"size": 20_000}),
    WorkloadSpec(name="odd", parameters={"size": 7_777}),
)
HONEST = """#include "task.h"
extern "C" void solve(const task::Args& args, void*) {
    for (int64_t i = 0; i < args.x_size; ++i) args.out[i] = 2 * args.x[i] + args.y[i];
}
"""
# By so much that no other program's interference makes it look fast: milliseconds against microseconds.
SLOW = """#include "task.h"
extern "C" void solve(const task::Args& args, void*) {
    for (int turn = 0; turn < 600; ++turn)
        for (int64_t i = 0; i < args.x_size; ++i) {
            args.out[i] = 2 * args.x[i] + args.y[i];
            asm volatile("" ::: "memory");
        }
}
"""
WRONG = HONEST.replace("+ args.y[i]", "+ args.y[i] * (i == 1234 ? 1.5f : 1.0f)")
ENDLESS = '#include "task.h"\nextern "C" void solve(const task::Args&, void*) { for (volatile int i = 0;; ++i) {} }\n'


def saxpy(**changes: object) -> TaskSource:
    """The task, with fields of TaskSource replaced."""
    fields = {
        "name": "saxpy",
        "kind": "numpy",
        "entry": "saxpy.py",
        "files": {"saxpy.py": SAXPY},
        "workloads": WORKLOADS,
    }
    return TaskSource.model_validate(fields | changes)


def cpp(text: str, **defines: str) -> Kernel:
    return Kernel(language="cpp", files={"kernel.cpp": text}, defines=defines)
