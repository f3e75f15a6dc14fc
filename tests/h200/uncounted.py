"""Profiles as they are kept; and those where counters can't be read: how these are put out of reach, and what a profile
must still say without them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from tools.profilers import ncu, ncu_live
from tools.profiles import Profile
from tools.records import Kernel

HOT_LINES = 3
"""Lines of the source that are kept of a profile."""
DENYING = """#!/bin/sh
echo "==PROF== Connected to process 1"
echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters" \\
    "on the target device 0."
exit 1
"""
"""In ncu's place: what it says where the driver keeps the counters for administrators."""


@contextmanager
def absent() -> Iterator[None]:
    """No ncu on the PATH nor in the usual places, as far as warpsmith looks."""
    with mock.patch.object(ncu, "find_ncu", lambda: None):
        yield


@contextmanager
def denied() -> Iterator[None]:
    """An ncu that may not read counters stands first on the PATH; it runs in the sandbox, as the real one does."""
    with tempfile.TemporaryDirectory(prefix="ncu-") as folder:
        program = Path(folder, "ncu")
        program.write_text(DENYING)
        program.chmod(0o755)
        with mock.patch.dict(os.environ, {"PATH": f"{folder}:{os.environ.get('PATH', os.defpath)}"}):
            yield


WAITING = """// A copy that waits for the launch behind it, on another stream: a profiler lets no two run at once.
#include "task.h"

__global__ void copy_once_released(const float* x, float* out, int64_t size, volatile int* released) {
    while (*released == 0) __nanosleep(100);
    for (int64_t i = threadIdx.x; i < size; i += blockDim.x) out[i] = x[i];
}

__global__ void release(volatile int* released) { *released = 1; }

extern "C" int64_t scratch_bytes(const task::Args&) { return sizeof(int); }

extern "C" void solve(const task::Args& args, void* scratch, task::Stream stream) {
    static task::Stream other = nullptr;
    static cudaEvent_t ready = nullptr, done = nullptr;
    if (other == nullptr) {
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
    }
    int* released = static_cast<int*>(scratch);
    cudaMemsetAsync(released, 0, sizeof(int), stream);
    cudaEventRecord(ready, stream);
    copy_once_released<<<1, 256, 0, stream>>>(args.x, args.out, args.x_size, released);
    cudaStreamWaitEvent(other, ready, 0);
    release<<<1, 1, 0, other>>>(released);
    cudaEventRecord(done, other);
    cudaStreamWaitEvent(stream, done, 0);
}
"""
STUCK = Kernel(language="cuda", files={"kernel.cu": WAITING})
WAITED = 20.0
"""Seconds that the profiler is given for it, where it gets minutes else."""


@contextmanager
def hurried() -> Iterator[None]:
    """The real ncu, with less patience."""
    with mock.patch.object(ncu_live, "count", partial(ncu_live.count, seconds=WAITED)):
        yield


REASONS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {"no_profiler": absent, "no_permission": denied}
"""By the reason that the profile must give."""
SAYS: Mapping[str, str] = {
    "that there are no counters": "without counters",
    "the measured roofline": "of the measured bandwidth",
    "registers": " registers, ",
    "spills": "bytes spilled",
    "occupancy": "of the warps at once",
    "machine code": "its machine code has",
}
"""What the evidence of a profile without counters must hold."""


def told(profile: Profile) -> dict[str, Any]:
    """A profile without the texts of ncu's rules and the lines of the source."""
    counters = profile.counters
    row: dict[str, Any] = {"bottleneck": profile.bottleneck}
    if counters is not None and counters.status == "counted":
        row |= {"cause": counters.cause, "unit": counters.unit}
    elif counters is not None:
        row |= {"reason": counters.reason, "message": counters.message}
    row |= {
        "evidence": profile.evidence,
        "figures": {metric.name: metric.value for metric in profile.metrics if metric.source != "clock"},
        "missing": profile.missing,
    }
    if counters is not None and counters.status == "counted":
        row |= {
            "stalls": {stall.reason: stall.share for stall in counters.stalls},
            "hot_lines": [(line.line, line.share) for line in profile.hot_lines[:HOT_LINES]],
            "rules": [rule.model_dump(mode="json", exclude={"text"}) for rule in counters.rules],
        }
    return row


def lacks(profile: Profile, reason: str) -> list[str]:
    """What such a profile should say and does not."""
    evidence, counters = " | ".join(profile.evidence), profile.counters
    found = [what for what, words in SAYS.items() if words not in evidence]
    if counters is None or counters.status != "uncounted" or counters.reason != reason:
        found.append(f"the reason {reason}")
    if not any(each.startswith("hardware counters: ") for each in profile.missing):
        found.append("what is missing")
    return found
