"""The worker for CUDA kernels: loads one kernel and runs it on request. It never holds an expected value.

    python -P -m tools.cuda_worker REQUESTS ANSWERS LIBRARY INSTRUMENTS [RESTRAINT]

REQUESTS and ANSWERS are descriptors that speak `tools.messages`; the first thing on REQUESTS is the plan, as JSON
behind its length. It is ready once the device is, and again when it was told to load the LIBRARY, which need not be
there before; where variants of one kernel are only compared, others (LIBRARY.1, ...) may follow and take turns. Device
memory comes as descriptors from the judge, inputs mapped read-only. Of each call the answer tells the nanoseconds
between two events on the kernel's stream. The outputs are copied in the order of that stream, so what the judge sees is
what a user of the stream would. Not covered: what the kernel's host code does to this process.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tools.cuda_flush import ColdCache
from tools.cuda_memory import DriverError, SharedBlock, call, driver, error_name
from tools.messages import CALLS_SHIFT, LOAD, MESSAGE, REQUEST, Kind, Place

if TYPE_CHECKING:
    import pycuda.driver as cuda
else:
    from tools.cuda_memory import cuda

HOLD_THREADS, HOLD_BLOCKS = 1024, 2
"""Threads of a block and blocks of a multiprocessor: all that it holds on the architectures with 2048."""
SCRATCH_FILL = 0xA5
RESTRAINT = 5
"""Argument that names the library by which it gives up what only a kernel would ask for; none without filters."""


@dataclass
class Workload:
    """What one workload's call needs."""

    arguments: Any
    """An array of 8-byte slots."""
    scalars: list[tuple[int, int]]
    """Slot and offset in the host's memory."""
    outputs: SharedBlock
    snapshot: SharedBlock
    scratch: Any = None
    scratch_bytes: int = 0
    before: Any = None
    """Room for what the outputs held before a row of calls."""


class Reporter:
    """The way back to the judge."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, nonce: int, kind: Kind, number: int = 0, value: int = 0, text: str = "") -> None:
        data = MESSAGE.pack(nonce, kind, number, value, 0, 0, Place.ELSEWHERE, -1, text.encode()[:87])
        if os.write(self._descriptor, data) != len(data):
            os._exit(0)

    def fail(self, kind: Kind, text: str) -> NoReturn:
        """Report and wait to be killed: nothing after a broken rule is worth running."""
        self.send(0, kind, text=text)
        while True:
            time.sleep(3600)


class Worker:
    """Holds the context, the mapped memory and the kernel."""

    def __init__(self, plan: dict[str, Any], instruments: str, reporter: Reporter) -> None:
        self._reporter = reporter
        cuda.init()
        device = cuda.Device(plan["device"])
        self._context = device.retain_primary_context()
        self._context.push()
        self._cold = ColdCache(instruments)
        self._hold = cuda.module_from_file(instruments).get_function("hold").prepare("Q")
        self._grid = (HOLD_BLOCKS * device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT), 1)
        self._stream = cuda.Stream()
        self._begin, self._end = cuda.Event(), cuda.Event()
        self._workloads = [_map(each, plan["device"]) for each in plan["workloads"]]
        self._scalars = [mmap.mmap(each["host"], 0, prot=mmap.PROT_READ) for each in plan["workloads"]]
        self._hold.prepared_async_call(self._grid, (HOLD_THREADS, 1, 1), self._stream, 1000)
        self._context.synchronize()
        for descriptor in plan["descriptors"]:
            os.close(descriptor)
        self._kernels: dict[int, tuple[Any, Any]] = {}

    def use(self, number: int, library: str) -> None:
        """The kernel of the library is called from now on. It is taken in, and its constructors run, the first time."""
        if number not in self._kernels:
            self._kernels[number] = self._taken_in(library)
        self._solve, self._scratch_bytes = self._kernels[number]

    def _taken_in(self, library: str) -> tuple[Any, Any]:
        try:
            loaded = ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_LOCAL)
            solve = loaded.solve
        except (OSError, AttributeError) as error:
            self._reporter.fail(Kind.NOT_LOADED, str(error))
        solve.argtypes, solve.restype = (ctypes.c_void_p,) * 3, None
        scratch_bytes = getattr(loaded, "scratch_bytes", None)
        if scratch_bytes is not None:
            scratch_bytes.argtypes, scratch_bytes.restype = (ctypes.c_void_p,), ctypes.c_int64
        return solve, scratch_bytes

    def run(self, number: int, delay: int) -> tuple[int, int, int]:
        """Nanoseconds of the call by events, of launching, and from the first launch to a device-wide synchronise."""
        workload, arguments = self._ready(number)
        call("cuCtxResetPersistingL2Cache")
        start = time.perf_counter_ns()
        self._hold.prepared_async_call(self._grid, (HOLD_THREADS, 1, 1), self._stream, 1000 * delay)
        launching = time.perf_counter_ns()
        self._begin.record(self._stream)
        scratch = self._scratch(workload, arguments)  # after the event, so that no work hides in it
        self._solve(arguments, scratch, self._stream.handle)
        self._end.record(self._stream)
        cuda.memcpy_dtod_async(workload.snapshot.address, workload.outputs.address, workload.outputs.size, self._stream)
        launched = time.perf_counter_ns()
        code = driver().cuCtxSynchronize()
        done = time.perf_counter_ns()
        if code:
            self._reporter.fail(Kind.DEVICE_FAULT, error_name(code))
        return round(self._begin.time_till(self._end) * 1e6), launched - launching, done - start

    def row(self, number: int, delay: int, calls: int) -> tuple[int, int, int]:
        """So many calls in the order of the stream, each over what the outputs held before, and the copy of one that is
        drawn: what takes place is for the judge's clock. As `run`, without events; with cold caches where the device is
        held."""
        workload, arguments = self._ready(number)
        outputs, size = workload.outputs.address, workload.outputs.size
        if workload.before is None:
            workload.before = cuda.mem_alloc(size)
        scratch = self._scratch(workload, arguments)
        cuda.memcpy_dtod(workload.before, outputs, size)
        self._context.synchronize()
        kept = int.from_bytes(os.urandom(4)) % calls
        start = time.perf_counter_ns()
        if delay:
            self._hold.prepared_async_call(self._grid, (HOLD_THREADS, 1, 1), self._stream, 1000 * delay)
        launching = time.perf_counter_ns()
        for index in range(calls):
            cuda.memcpy_dtod_async(outputs, workload.before, size, self._stream)
            if delay:
                self._cold.read(self._stream.handle)
            self._solve(arguments, scratch, self._stream.handle)
            if index == kept:
                cuda.memcpy_dtod_async(workload.snapshot.address, outputs, size, self._stream)
        launched = time.perf_counter_ns()
        code = driver().cuCtxSynchronize()
        done = time.perf_counter_ns()
        if code:
            self._reporter.fail(Kind.DEVICE_FAULT, error_name(code))
        return 0, launched - launching, done - start

    def _ready(self, number: int) -> tuple[Workload, int]:
        """The workload with its current scalars, and the address of its arguments."""
        workload = self._workloads[number]
        for slot, offset in workload.scalars:
            workload.arguments[slot] = struct.unpack_from("=Q", self._scalars[number], offset)[0]
        return workload, ctypes.addressof(workload.arguments)

    def _scratch(self, workload: Workload, arguments: int) -> int:
        wanted = 0 if self._scratch_bytes is None else self._scratch_bytes(arguments)
        if wanted < 0:
            self._reporter.fail(Kind.EXCEPTION, "scratch_bytes returned a negative number")
        if wanted > workload.scratch_bytes:
            workload.scratch = None  # the smaller one, first
            workload.scratch = cuda.mem_alloc(wanted)
            workload.scratch_bytes = wanted
            cuda.memset_d8(workload.scratch, SCRATCH_FILL, wanted)
            self._context.synchronize()
        return int(workload.scratch) if wanted else 0


def _map(plan: dict[str, Any], device: int) -> Workload:
    def block(name: str, *, writable: bool) -> SharedBlock:
        descriptor, size = plan[name]
        return SharedBlock.open(descriptor, size, device, writable=writable)

    inputs, outputs = block("inputs", writable=False), block("outputs", writable=True)
    snapshot = block("snapshot", writable=True)
    bases = {"input": inputs.address, "output": outputs.address, "value": 0, "scalar": 0}
    slots = plan["slots"]
    arguments = (ctypes.c_uint64 * max(len(slots), 1))(*(bases[kind] + value for kind, value in slots))
    scalars = [(number, value) for number, (kind, value) in enumerate(slots) if kind == "scalar"]
    return Workload(arguments, scalars, outputs, snapshot)


def _read(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(descriptor, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def main() -> None:
    """Serve until the judge's end of the channel is closed."""
    requests, answers = int(sys.argv[1]), int(sys.argv[2])
    reporter = Reporter(answers)
    plan = json.loads(_read(requests, struct.unpack("=I", _read(requests, 4))[0]))
    try:
        worker = Worker(plan, sys.argv[4], reporter)
    except (cuda.Error, DriverError) as error:
        print(f"worker: {error}", file=sys.stderr, flush=True)
        reporter.fail(Kind.NOT_CONFINED, str(error))
    if len(sys.argv) > RESTRAINT and ctypes.CDLL(sys.argv[RESTRAINT]).restrain() != 0:
        reporter.fail(Kind.NOT_CONFINED, "the system takes no filter of its calls")
    reporter.send(0, Kind.READY)
    while True:
        nonce, workload, order = REQUEST.unpack(_read(requests, REQUEST.size))
        if workload == LOAD:
            worker.use(order, f"{sys.argv[3]}.{order}" if order else sys.argv[3])
            reporter.send(nonce, Kind.READY)
            continue
        calls, delay = divmod(order, 1 << CALLS_SHIFT)
        try:
            if calls:
                event, launching, whole = worker.row(workload, delay, calls)
            else:
                event, launching, whole = worker.run(workload, delay) if workload >= 0 else (0, 0, 0)
        except cuda.MemoryError:
            reporter.fail(Kind.DEVICE_FAULT, "CUDA_ERROR_OUT_OF_MEMORY")
        except (cuda.Error, DriverError) as error:
            reporter.fail(Kind.DEVICE_FAULT, str(error))
        reporter.send(nonce, Kind.DONE, min(launching // 1000, 1 << 30), event, str(whole))


if __name__ == "__main__":
    main()
