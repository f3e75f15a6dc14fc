"""The worker for torch kernels: holds one `ModelNew` and calls it on request. It never holds an expected value.

A confined child of `tools.torch_server`. Its descriptors are: requests, answers, output, report, and those of the
plan, which is the first thing on the channel, as JSON behind its length. It speaks `tools.messages`; what does not fit
in there (why a kernel was refused, what ran on the device) is JSON behind its length in the report's memory.

The inputs are the judge's memory, read-only, and always the same tensors; what `forward` returns is looked at and
copied into the judge's memory in the order of the stream, and once more a moment later for the judge to see what came
late. Not covered: what the kernel does to this process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from tools.messages import CALLS_SHIFT, REQUEST, Kind
from tools.torch_channel import Reporter, read, read_plan
from tools.torch_load import (
    SOURCES,
    load_module,
    make_model,
    place_caches,
    place_extensions,
    refuse_compilers,
    told,
)
from tools.torch_memory import Memory, close_all, scalar_at
from tools.torch_ops import RuleBrokenError, follow_threads, framework_namespaces, tracer
from tools.torch_result import Checker
from tools.torch_workload import Workload, memory_of, workload_of

UNCLOCKED = 1 << 31
"""Bit of a request's last word: the call's time does not count, so new memory may be filled."""
LATE_MILLISECONDS = (10, 30)
"""After so long without a request, each beginning when the one before is over, results are delivered again."""
TRACED_CALLS = 2


class Worker:
    """Holds the memory, the kernel and the tracer."""

    def __init__(self, plan: dict[str, Any], descriptors: list[int], memory: Memory, reporter: Reporter) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._memory, self._reporter = memory, reporter
        self._folder = Path(plan["folder"])
        self._calls = plan["workloads"]
        self._purpose = plan["purpose"]
        self._no_profiler = ""
        self._guarding = self._purpose == "guard"
        self._checker = Checker(self._torch, memory.name)
        known = framework_namespaces()
        self._mode = tracer(self._folder / SOURCES, lambda namespace: namespace not in known)
        if memory.name == "cuda":
            self._mode.capturing = self._torch.cuda.is_current_stream_capturing
        if self._guarding:
            self._mode.placed = lambda made: memory.guarded(self._torch, made)
        self.workloads = [workload_of(each, descriptors, memory) for each in plan["workloads"]]

    def load(self) -> None:
        """Take the kernel in. Whatever it raises passes."""
        follow_threads(self._mode)
        refuse_compilers(self._folder)
        place_extensions(self._folder, build=False)
        if self._purpose != "nothing":
            place_caches()
        if self._purpose == "nothing":
            module: Any = _Nothing(self._torch, self._memory.name)
        else:
            os.chdir(self._folder / SOURCES)
            self._mode.only_captured = True
            with self._mode:
                module = load_module(self._folder)
        with self._mode if self._mode.only_captured else contextlib.nullcontext():
            for plan, workload in zip(self._calls, self.workloads, strict=True):
                workload.model = make_model(module, plan["call"], workload.state, self._memory.name)
        self._mode.only_captured = False
        if self._mode.broken is not None:
            raise self._mode.broken

    def run(self, number: int, order: int) -> tuple[int, int, int]:
        """Nanoseconds of the call, of launching, and from its begin to a device-wide synchronise."""
        workload, memory = self.workloads[number], self._memory
        arguments = self._arguments(workload)
        workload.kept = None
        unclocked = bool(order & UNCLOCKED)
        self._mode.on_empty = (lambda made: self._fill(workload, made)) if unclocked else None
        model = workload.model
        begin = time.perf_counter_ns()
        with self._torch.no_grad(), self._mode:
            result, launching, _ = memory.timed(lambda: model(*arguments), order & ~UNCLOCKED)
        if self._mode.broken is not None:
            raise self._mode.broken
        workload.results = self._checker.addresses(result, workload.wanted, workload.taken)
        workload.kept = result
        self._deliver(workload)
        fault = memory.settle()
        whole = time.perf_counter_ns() - begin
        if fault is not None:
            self._reporter.fail(*fault)
        if self._guarding:
            memory.require_whole_guards()
        return memory.elapsed(), launching, whole

    def row(self, number: int, delay: int, calls: int) -> tuple[int, int, int]:
        """So many calls, one behind the other, with cold caches where the device is held. Each result is looked at and
        then written over, and that of a call that is drawn is kept for the judge, whose clock alone counts."""
        workload, memory = self.workloads[number], self._memory
        arguments, model = self._arguments(workload), workload.model
        device = {"dtype": self._torch.uint8, "device": memory.name}
        rooms = [self._torch.empty(max(want.nbytes, 1), **device) for want in workload.wanted]
        kept = int.from_bytes(os.urandom(4), "little") % calls
        self._mode.on_empty = workload.kept = None

        def work() -> None:
            for index in range(calls):
                if delay:
                    memory.cool()
                result = model(*arguments)
                sources = self._checker.addresses(result, workload.wanted, workload.taken)
                for room, source, target, want in zip(rooms, sources, workload.targets, workload.wanted, strict=True):
                    if index == kept:
                        memory.copy(room.data_ptr(), source, want.nbytes)
                    memory.copy(source, target, want.nbytes)

        begin = time.perf_counter_ns()
        with self._torch.no_grad(), self._mode:
            _, launching, _ = memory.timed(work, delay)
        if self._mode.broken is not None:
            raise self._mode.broken
        workload.results, workload.kept = [room.data_ptr() for room in rooms], rooms
        self._deliver(workload)
        fault = memory.settle()
        if fault is not None:
            self._reporter.fail(*fault)
        return 0, launching, time.perf_counter_ns() - begin

    def _arguments(self, workload: Workload) -> list[Any]:
        """With the current scalars."""
        arguments = list(workload.arguments)
        for index, (offset, ctype) in workload.scalars.items():
            arguments[index] = scalar_at(workload.host, offset, ctype)
        return arguments

    def _deliver(self, workload: Workload) -> None:
        """Copy the results to where the judge takes them, in the order of the stream."""
        for target, source, want in zip(workload.targets, workload.results, workload.wanted, strict=True):
            self._memory.copy(target, source, want.nbytes)
        if workload.block is not None:
            self._memory.copy(workload.block[1], workload.block[0], workload.block_bytes)

    def deliver_late(self, number: int) -> None:
        """Copy them again, without the snapshot of what was there in time."""
        workload = self.workloads[number]
        if self._memory.settle() is None:
            for target, source, want in zip(workload.targets, workload.results, workload.wanted, strict=True):
                self._memory.copy(target, source, want.nbytes)
            self._memory.settle()

    def _fill(self, workload: Workload, made: Any) -> None:
        """Give new memory what an output of its size holds now: the judge knows that pattern, no kernel made it."""
        size = made.untyped_storage().nbytes()
        for target, want in zip(workload.targets, workload.wanted, strict=True):
            if want.nbytes and want.own is None and size >= want.nbytes and made.device.type == self._memory.name:
                self._memory.fill(made.data_ptr(), target, want.nbytes)
                return

    def warm_profiler(self) -> None:
        """Start the profiler once, before the kernel is there."""
        profile: Any = importlib.import_module("tools.torch_profile")
        try:
            profile.warm_up(self._torch, self._memory.name)
        except profile.NoProfilerError as error:
            self._no_profiler = str(error)

    def traced(self) -> list[dict[str, Any]]:
        """What the framework's profiler sees of a few calls: operators, and kernels on the device, by workload."""
        if self._no_profiler:
            return [{"trouble": self._no_profiler} for _ in self.workloads]
        tracing: Any = importlib.import_module("tools.torch_profile")
        return [
            tracing.profiled(self._torch, self._memory.name, lambda index=index: self.run(index, 0), TRACED_CALLS)
            for index in range(len(self.workloads))
        ]


class _Nothing:
    """The judge's own kernel: it returns memory as it is."""

    def __init__(self, torch: Any, device: str) -> None:
        class Nothing(torch.nn.Module):  # type: ignore[misc]
            def forward(self, x: Any) -> Any:
                return torch.empty_like(x, device=device)

        self.ModelNew = Nothing


def serve(descriptors: list[int], guard: str) -> None:
    """Serve until the judge's end of the channel is closed."""
    requests, answers, output, report = descriptors[:4]
    reporter = Reporter(answers, report)
    plan = read_plan(requests)
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(plan["threads"])
    try:
        worker = Worker(plan, descriptors, memory_of(plan, descriptors, guard), reporter)
    except Exception as error:  # noqa: BLE001 - no kernel is loaded yet, so whatever it is, it is ours
        reporter.fail(Kind.NOT_CONFINED, f"{type(error).__name__}: {error}")
    close_all([output, *descriptors[4:]])
    if plan["device"] == "cpu":
        importlib.import_module("ctypes").CDLL(guard).guard_report(answers)
    if plan["purpose"] == "trace":
        worker.warm_profiler()
    try:
        worker.load()
    except BaseException as error:  # noqa: BLE001 - the kernel's code may raise anything
        _fail(worker, reporter, error, plan)
    reporter.send(0, Kind.READY)
    _answer(worker, requests, reporter, plan)


def _answer(worker: Worker, requests: int, reporter: Reporter, plan: dict[str, Any]) -> None:
    ready = select.poll()
    ready.register(requests, select.POLLIN)
    last = -1
    while True:
        for pause in LATE_MILLISECONDS if last >= 0 else ():
            if ready.poll(pause):
                break
            worker.deliver_late(last)
        nonce, number, order = REQUEST.unpack(read(requests, REQUEST.size))
        last = number
        try:
            if number == -2:
                reporter.tell({"traced": worker.traced()})
            calls, delay = divmod(order & ~UNCLOCKED, 1 << CALLS_SHIFT)
            if calls:
                inner, launching, whole = worker.row(number, delay, calls)
            else:
                inner, launching, whole = worker.run(number, order) if number >= 0 else (0, 0, 0)
        except BaseException as error:  # noqa: BLE001 - the kernel's code may raise anything
            _fail(worker, reporter, error, plan)
        reporter.send(nonce, Kind.DONE, min(launching // 1000, 1 << 30), inner, str(whole))


def _fail(worker: Worker, reporter: Reporter, error: BaseException, plan: dict[str, Any]) -> NoReturn:
    """Report what a kernel raised; a fault of the device comes first, since all that follows is its echo."""
    if not isinstance(error, RuleBrokenError):
        fault = worker._memory.settle()
        if fault is not None:
            reporter.fail(*fault)
    if worker._mode.broken is not None:
        error = worker._mode.broken
    if not isinstance(error, RuleBrokenError):
        traceback.print_exception(error)
    reporter.fail(Kind.BROKEN, told(error, Path(plan["folder"])))
