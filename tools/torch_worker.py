"""The worker for torch kernels: holds one `ModelNew` and calls it on request. It never holds an expected value.

A confined child of `tools.torch_server`. Its descriptors are: requests, answers, output, report, and those of the
plan, which is the first thing on the channel, as JSON behind its length. It speaks `tools.messages`; what does not fit
in there (why a kernel was refused, what ran on the device) is JSON behind its length in the report's memory.

The inputs are the judge's memory, read-only, and always the same tensors; what `forward` returns is looked at and
copied into the judge's memory in the order of the stream, and once more a moment later for the judge to see what came
late. Not covered: what the kernel does to this process.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import select
import struct
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tools.messages import CALLS_SHIFT, MESSAGE, REQUEST, Kind, Place
from tools.torch_load import (
    SOURCES,
    load_module,
    make_model,
    place_caches,
    place_extensions,
    refuse_compilers,
    told,
)
from tools.torch_memory import DeviceMemory, HostMemory, Memory, close_all, scalar_at
from tools.torch_ops import RuleBrokenError, follow_threads, framework_namespaces, tracer
from tools.torch_result import Checker, Region, Wanted

UNCLOCKED = 1 << 31
"""Bit of a request's last word: the call's time does not count, so new memory may be filled."""
LATE_MILLISECONDS = 20
TRACED_CALLS = 2


@dataclass
class Workload:
    """What one workload's call needs."""

    arguments: list[Any]
    """Tensors, constants, and (offset, type) of scalars by their place in `scalars`."""
    scalars: dict[int, tuple[int, str]]
    host: mmap.mmap
    wanted: list[Wanted]
    targets: list[int]
    """Where the judge takes each output."""
    block: tuple[int, int] | None
    """Addresses of the whole block of outputs and of its snapshot, on a device."""
    block_bytes: int
    taken: list[Region]
    state: dict[str, Any]
    model: Any = None
    results: list[int] = field(default_factory=list)
    kept: Any = None


class Reporter:
    """The way back to the judge."""

    def __init__(self, descriptor: int, report: int) -> None:
        self._descriptor, self._report = descriptor, mmap.mmap(report, 0)
        self._write, self._pack = os.write, MESSAGE.pack

    def send(self, nonce: int, kind: Kind, number: int = 0, value: int = 0, text: str = "") -> None:
        data = self._pack(nonce, kind, number, value, 0, 0, Place.ELSEWHERE, -1, text.encode()[:87])
        if self._write(self._descriptor, data) != len(data):
            os._exit(0)

    def tell(self, what: dict[str, Any]) -> None:
        """Leave it in the report."""
        data = json.dumps(what).encode()
        data = struct.pack("=I", len(data)) + data
        self._report[: len(data)] = data

    def fail(self, kind: Kind, what: dict[str, Any] | str) -> NoReturn:
        """Report and wait to be killed: nothing after a broken rule is worth running."""
        if isinstance(what, dict):
            self.tell(what)
        self.send(0, kind, text="" if isinstance(what, dict) else what)
        while True:
            time.sleep(3600)


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
        if self._guarding:
            self._mode.placed = lambda made: memory.guarded(self._torch, made)
        self.workloads = [self._workload(each, descriptors) for each in plan["workloads"]]

    def _workload(self, plan: dict[str, Any], descriptors: list[int]) -> Workload:
        torch, memory = self._torch, self._memory
        inputs, outputs = descriptors[plan["inputs"]], descriptors[plan["outputs"]]
        in_place = {name for name in plan["output_spans"] if name in plan["input_spans"]}

        def tensor(name: str) -> Any:
            dtype, shape = plan["tensors"][name]
            block, spans = (outputs, "output_spans") if name in in_place else (inputs, "input_spans")
            return memory.tensor(block, plan[spans][name][0], getattr(torch, dtype), tuple(shape))

        arguments: list[Any] = []
        scalars: dict[int, tuple[int, str]] = {}
        for kind, value in plan["call"]["arguments"]:
            if kind == "input" and value in plan["scalars"]:
                scalars[len(arguments)] = tuple(plan["scalars"][value])
                arguments.append(None)
            else:
                arguments.append(tensor(value) if kind == "input" else _literal(value))
        state = {own: tensor(name) for own, name in plan["call"]["state"].items()}
        taken, wanted, targets = [], [], []
        for name, (offset, size) in plan["input_spans"].items():
            if name in plan["tensors"] and name not in in_place and size:
                start = memory.address(inputs, offset)
                taken.append((name, start, start + size))
        for name, (offset, size) in plan["output_spans"].items():
            dtype, shape = plan["tensors"][name]
            start = memory.address(outputs, offset) if size else 0
            own = (start, start + size) if name in in_place else None
            wanted.append(Wanted(name, getattr(torch, dtype), tuple(shape), size, own))
            targets.append(start)
        snapshot = plan.get("snapshot")
        block = None if snapshot is None else (memory.address(outputs, 0), memory.address(descriptors[snapshot], 0))
        host = mmap.mmap(descriptors[plan["host"]], 0, prot=mmap.PROT_READ)
        return Workload(arguments, scalars, host, wanted, targets, block, plan["output_bytes"], taken, state)

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
            module = load_module(self._folder)
        for plan, workload in zip(self._calls, self.workloads, strict=True):
            workload.model = make_model(module, plan["call"], workload.state, self._memory.name)

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
        """So many calls, one behind the other. Each result is looked at and then written over, and that of a call that
        is drawn is kept for the judge, whose clock alone counts."""
        workload, memory = self.workloads[number], self._memory
        arguments, model = self._arguments(workload), workload.model
        device = {"dtype": self._torch.uint8, "device": memory.name}
        rooms = [self._torch.empty(max(want.nbytes, 1), **device) for want in workload.wanted]
        kept = int.from_bytes(os.urandom(4), "little") % calls
        self._mode.on_empty = workload.kept = None

        def work() -> None:
            for index in range(calls):
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
                self._memory.copy(made.data_ptr(), target, want.nbytes)
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


def _literal(text: str) -> Any:
    return importlib.import_module("ast").literal_eval(text)


def _read(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(descriptor, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def _memory_of(plan: dict[str, Any], descriptors: list[int], guard: str) -> Memory:
    if plan["device"] == "cuda":
        blocks: dict[int, tuple[int, bool]] = {}
        for each in plan["workloads"]:
            for part in ("inputs", "outputs", "snapshot"):
                blocks[descriptors[each[part]]] = (each["sizes"][part], part != "inputs")
        return DeviceMemory(blocks, plan["instruments"])
    host = HostMemory(guard)
    for number, each in enumerate(plan["workloads"]):
        for part in ("inputs", "outputs"):
            for name, (offset, size) in each[f"{part[:-1]}_spans"].items():
                if name in each["tensors"]:
                    slot = each["slots"].get(name, -1)
                    writable = part == "outputs"
                    host.map(descriptors[each[part]], offset, size, writable=writable, workload=number, slot=slot)
    return host


def serve(descriptors: list[int], guard: str) -> None:
    """Serve until the judge's end of the channel is closed."""
    requests, answers, output, report = descriptors[:4]
    reporter = Reporter(answers, report)
    plan = json.loads(_read(requests, struct.unpack("=I", _read(requests, 4))[0]))
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(plan["threads"])
    try:
        worker = Worker(plan, descriptors, _memory_of(plan, descriptors, guard), reporter)
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
        if last >= 0 and not ready.poll(LATE_MILLISECONDS):
            worker.deliver_late(last)
        nonce, number, order = REQUEST.unpack(_read(requests, REQUEST.size))
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
