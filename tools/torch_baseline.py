"""Times a KernelBench model in a process of its own: as PyTorch runs it, and as torch.compile makes it.

    python -P -m tools.torch_baseline < jobs.json

Trusted, as the task's own code is; nothing of a kernel is in it. Reads `Jobs`, writes one `Row` a line as soon as it
is known, so that whoever ends it early keeps what there is. The caller holds the device. A call is timed as a
kernel's is: second-level cache overwritten, launches queued behind a busy device, the span between two events. CUDA
graphs have no part in it for that reason: they save launching, which is not counted, and copy their inputs, which is.
"""

from __future__ import annotations

import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal, TextIO

from pydantic import TypeAdapter, model_validator

from tools.errors import TaskError
from tools.records import Record
from tools.task import TaskSource
from tools.tasks.kernelbench import KernelBenchBackend
from tools.tasks.torch_reference import Place, allow_tf32

EAGER = "eager"
COMPILED: dict[str, dict[str, str]] = {
    "compile": {},
    "compile-max-autotune": {"mode": "max-autotune-no-cudagraphs"},
}
"""Arguments of `torch.compile` by the baseline's name."""
WARM_UP_SECONDS, WARM_UP_CALLS = 0.05, 3
LEAST_HOLD, MOST_HOLD = 100e-6, 20e-3
"""Seconds for which the device is kept busy while a call is launched."""
FASTEST_CLOCK = 2.0e9
"""Cycles a second, at least as many as any multiprocessor makes."""
HOLD_TRIES = 3
FLUSH_FACTOR = 2


class Job(Record):
    """One task to time, on every workload."""

    source: TaskSource
    device: Literal["cuda", "cpu"] = "cuda"
    """On `cpu` the host's clock is read, and nothing is flushed."""
    variants: tuple[str, ...] = (EAGER, *COMPILED)
    seconds: float = 0.3
    """Budget of timed calls for each variant and workload."""
    least: int = 10
    most: int = 60
    """Timed calls of a variant."""
    patience: float = 120.0
    """Seconds that one variant of one workload may take to compile and warm up."""


class Row(Record):
    """What became of one variant of one workload. A variant may have several rows: their samples add up."""

    task: str
    workload: int
    variant: str
    status: Literal["timed", "failed"]
    samples: tuple[float, ...] = ()
    """Seconds of each call."""
    why: str = ""
    prepared: float = 0.0
    """Seconds until the first call was done."""

    @model_validator(mode="after")
    def _status_decides_fields(self) -> Row:
        if (self.status == "timed") != bool(self.samples) or (self.status == "failed") != bool(self.why):
            raise ValueError("a timed variant has samples, a failed one a reason")
        return self


Jobs: TypeAdapter[list[Job]] = TypeAdapter(list[Job])
Work = Callable[[], object]


class DeviceClock:
    """Seconds of one call on the GPU, with cold caches."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        size = FLUSH_FACTOR * torch.cuda.get_device_properties(0).L2_cache_size
        self._flushed = torch.empty(size, dtype=torch.uint8, device="cuda")
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._hold = LEAST_HOLD

    def reading(self, work: Work) -> float:
        """Repeated with a longer hold while launching takes longer than the device was held."""
        for _ in range(HOLD_TRIES):
            self._flushed.fill_(random.getrandbits(8))
            self._torch.cuda.synchronize()
            self._torch.cuda._sleep(int(self._hold * FASTEST_CLOCK))
            self._begin.record()
            start = time.perf_counter()
            work()
            launching = time.perf_counter() - start
            self._end.record()
            self._torch.cuda.synchronize()
            if launching < 0.8 * self._hold or self._hold >= MOST_HOLD:
                break
            self._hold = min(2 * launching, MOST_HOLD)
        return float(self._begin.elapsed_time(self._end)) * 1e-3


class HostClock:
    """Seconds of one call on the host."""

    def reading(self, work: Work) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start


class Patience:
    """Ends what takes too long in Python code; what hangs below it is for the caller of this process to end."""

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Raises TimeoutError."""

        def ring(*_: object) -> None:
            raise TimeoutError(f"took longer than {seconds:g} s")

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def rows(torch: Any, job: Job) -> Iterator[Row]:
    """Time every variant of the job, PyTorch itself first on every workload: a compiler may end this process. Raises
    TaskError when the task's own code fails."""
    place = Place(torch, job.device)
    allow_tf32(torch, job.source.policy)
    clock = DeviceClock(torch) if place.on_gpu else HostClock()
    backend = KernelBenchBackend(job.source, place)
    with ExitStack() as modes:
        modes.enter_context(torch.no_grad())
        modes.enter_context(_autocast(torch, job))
        for variants in ((EAGER,), tuple(name for name in job.variants if name != EAGER)):
            for workload in range(len(job.source.workloads) if variants else 0):
                yield from _workload_rows(job, backend, clock, workload, variants)
                place.forget()


def _workload_rows(
    job: Job,
    backend: KernelBenchBackend,
    clock: DeviceClock | HostClock,
    workload: int,
    variants: tuple[str, ...],
) -> Iterator[Row]:
    """Each variant raced with PyTorch itself."""
    torch = backend.place.torch
    model, arguments = backend.prepared(workload, backend.given(workload, random.getrandbits(62)))
    restore = _restorer(torch, model, arguments)
    works: dict[str, Work] = {EAGER: _made(torch, EAGER, model, arguments)}
    for variant in variants:
        start = time.perf_counter()
        try:
            with Patience().within(job.patience):
                works[variant] = _made(torch, variant, model, arguments)
                _warm_up(works[variant], restore)
        except Exception as error:  # noqa: BLE001 - a compiler may raise anything, and PyTorch itself remains
            works.pop(variant, None)
            yield Row(task=job.source.id, workload=workload, variant=variant, status="failed", why=_words(error))
            if variant in COMPILED:
                torch._dynamo.reset()
            continue
        prepared = time.perf_counter() - start
        raced = {name: works[name] for name in dict.fromkeys((EAGER, variant)) if name in works}
        for name, samples in _raced(clock, raced, restore, job).items():
            yield Row(
                task=job.source.id,
                workload=workload,
                variant=name,
                status="timed",
                samples=tuple(samples),
                prepared=prepared if name == variant else 0.0,
            )


def _made(torch: Any, variant: str, model: Any, arguments: list[Any]) -> Work:
    if variant == EAGER:
        return lambda: model(*arguments)
    torch._dynamo.reset()
    compiled = torch.compile(model, dynamic=False, **COMPILED[variant])
    return lambda: compiled(*arguments)


def _warm_up(work: Work, restore: Callable[[], None]) -> None:
    begin, calls = time.perf_counter(), 0
    while calls < WARM_UP_CALLS or time.perf_counter() - begin < WARM_UP_SECONDS:
        restore()
        work()
        calls += 1


def _raced(
    clock: DeviceClock | HostClock, works: dict[str, Work], restore: Callable[[], None], job: Job
) -> dict[str, list[float]]:
    """Samples of each, taken in turn in a random order."""
    samples: dict[str, list[float]] = {name: [] for name in works}
    begin = time.perf_counter()
    for number in range(job.most):
        if number >= job.least and time.perf_counter() - begin > job.seconds * len(works):
            break
        for name in random.sample(sorted(works), len(works)):
            restore()
            samples[name].append(clock.reading(works[name]))
    return samples


def _restorer(torch: Any, model: Any, arguments: list[Any]) -> Callable[[], None]:
    """Writes the arguments anew where a call changes them; otherwise it has nothing to do."""
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    kept = [tensor.clone() for tensor in tensors]
    model(*arguments)
    if all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, kept, strict=True)):
        return lambda: None

    def restore() -> None:
        for tensor, copy in zip(tensors, kept, strict=True):
            tensor.copy_(copy)

    return restore


def _autocast(torch: Any, job: Job) -> AbstractContextManager[Any]:
    enabled = job.source.policy == "mixed"
    found: AbstractContextManager[Any] = torch.autocast(job.device, dtype=torch.bfloat16, enabled=enabled)
    return found


def _words(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if isinstance(error, TimeoutError) and lines else ": ".join([type(error).__name__, *lines[:1]]))[
        :300
    ]


def _answers() -> TextIO:
    """The way back to the caller; what the task's code prints goes to the error stream instead."""
    sys.stdout.flush()
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return stream


def main() -> None:
    """Work through the jobs; a task whose own code fails has a failed row for PyTorch itself."""
    answers = _answers()
    jobs = Jobs.validate_json(sys.stdin.buffer.read())
    torch = importlib.import_module("torch")
    if any(set(job.variants) & set(COMPILED) for job in jobs):
        importlib.import_module("torch._dynamo")
    for job in jobs:
        try:
            for row in rows(torch, job):
                print(row.model_dump_json(), file=answers, flush=True)
        except TaskError as error:
            failed = Row(task=job.source.id, workload=0, variant=EAGER, status="failed", why=error.message)
            print(failed.model_dump_json(), file=answers, flush=True)


if __name__ == "__main__":
    main()
