"""What is watched while something else runs: the parts of a verdict, how busy the device is, what the profiler does."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from recording import Report

from tools import cuda_look, race, reference, runner
from tools.profilers import ncu
from tools.targets.device_choice import chosen_device

PARTS: tuple[tuple[str, Any, str], ...] = (
    ("races", race.Race, "run"),
    ("races", race.Race, "warm_up"),
    ("rows of calls", runner.Runner, "disagreement_in_a_row"),
    ("waiting for sanitizers", cuda_look.CudaLook, "report"),
    ("drawing inputs", reference.Reference, "draw"),
    ("reference", reference.Reference, "baseline"),
    ("reference", reference.Reference, "oracle"),
)
"""What a verdict's time goes into beside the compiler; what lies within another part counts for the inner one."""


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Seconds of each part while it lasts, in the thread that judges."""
    seconds: dict[str, float] = {}
    inner: list[float] = []
    with_originals = [(owner, name, getattr(owner, name)) for _, owner, name in PARTS]

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():  # beside the compiler, at no cost
                return function(*arguments, **named)
            begin = time.perf_counter()
            inner.append(0.0)
            try:
                return function(*arguments, **named)
            finally:
                whole, within = time.perf_counter() - begin, inner.pop()
                seconds[part] = seconds.get(part, 0.0) + whole - within
                if inner:
                    inner[-1] += whole

        return call

    for (part, owner, name), (_, _, function) in zip(PARTS, with_originals, strict=True):
        setattr(owner, name, timed(part, function))
    try:
        yield seconds
    finally:
        for owner, name, function in with_originals:
            setattr(owner, name, function)


@contextmanager
def utilisation() -> Iterator[list[float]]:
    """Percent of each fifth of a second in which the device ran something, as its driver counts."""
    samples: list[float] = []
    chosen = chosen_device(os.environ)
    which = [f"--id={chosen}"] if chosen is not None else []
    query = ["nvidia-smi", *which, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
    with subprocess.Popen(query, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = process.stdout

        def read() -> None:
            samples.extend(float(line) for line in lines if line.strip().isdigit())

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield samples
        finally:
            process.terminate()
            reader.join()


@contextmanager
def commands() -> Iterator[list[Report]]:
    """What of ncu was run, how long it took, and in how many passes."""
    original, seen = ncu.run_command, list[Report]()  # type: ignore[attr-defined]

    def run(argv: Sequence[str], **named: Any) -> Any:
        done = original(argv, **named)
        words = [word for word in ("--query-metrics-collection", "--page", "--export") if word in argv]
        what = argv[argv.index(words[0]) + 1] if words and words[0] != "--export" else "collect"
        passes = [int(count) for count in re.findall(r"(\d+) pass", done.stdout + done.stderr)]
        seen.append({"what": what, "seconds": done.seconds, **({"passes": passes} if passes else {})})
        return done

    ncu.run_command = run  # type: ignore[attr-defined]
    try:
        yield seen
    finally:
        ncu.run_command = original  # type: ignore[attr-defined]
