"""Small C++ kernels for the tests of the native side, and the buffers that they run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tools.buffers import WorkloadBuffers
from tools.contract import Scalar, Signature, Tensor, task_header
from tools.records import Kernel
from tools.sandbox import Sandbox
from tools.targets.base import Variant
from tools.targets.cpu import CpuTarget
from tools.worker import Worker, WorkerLimits
from tools.worker_limits import WorkerVariant

Values: TypeAlias = npt.NDArray[np.float32]
COUNT = 1000
SIGNATURE = Signature(
    inputs=(Tensor(name="a", dtype="float32", shape=(COUNT,)), Scalar(name="factor", ctype="float64")),
    outputs=(Tensor(name="y", dtype="float32", shape=(COUNT,)),),
)
SCALE = "for (int64_t i = 0; i < args.a_d0; ++i) args.y[i] = args.a[i] * (float)args.factor;"
INCLUDES = """#include "task.h"
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
"""


def source(body: str, before: str = "") -> str:
    return INCLUDES + before + '\nextern "C" void solve(const task::Args& args, void* scratch) {\n' + body + "\n}\n"


def result(worker: Worker) -> Values:
    """What the worker's one output holds now."""
    return worker.outputs[0].outputs["y"].view(np.float32)


def build(text: str, signatures: tuple[Signature, ...] = (SIGNATURE,), variant: Variant = "release") -> Path:
    kernel = Kernel(language="cpp", files={"kernel.cpp": text})
    built = CpuTarget().compile_kernel(kernel, task_header("test", signatures), variant)
    assert built.library is not None, built.report.output
    return built.library


@contextmanager
def started(
    text: str,
    sandbox: Sandbox | None = None,
    limits: WorkerLimits | None = None,
    variant: WorkerVariant = "release",
) -> Iterator[tuple[Worker, Values]]:
    """A worker on `text` with the one-workload signature above, and the values that `SCALE` should give."""
    library = build(text, variant=variant)
    with WorkloadBuffers(SIGNATURE, [SIGNATURE]) as buffers:
        values = np.random.default_rng(1).random(COUNT, dtype=np.float32)
        buffers.write({"a": values, "factor": 2.5})
        with Worker(library, [buffers], limits, sandbox, variant) as worker:
            worker.outputs[0].poison(7)
            yield worker, values * np.float32(2.5)
