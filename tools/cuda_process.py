"""The judge's handle on a worker for CUDA kernels (`tools.cuda_worker`)."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools import cuda_programs
from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.contract import Slot
from tools.cuda_buffers import DeviceInputs, DeviceOutputs
from tools.cuda_flush import ColdCache
from tools.cuda_memory import cuda
from tools.cuda_outputs import OutputPool
from tools.errors import InfrastructureError
from tools.messages import CALLS_SHIFT, LOAD, REQUEST
from tools.nvml import Monitor
from tools.process import descendants
from tools.sandbox import Confinement, Sandbox
from tools.targets import cuda_vendor
from tools.wire import Message
from tools.worker import Call, Launch, Worker, WorkerFailed
from tools.worker_limits import WorkerLimits

DELAY, LEAST_DELAY, MOST_DELAY = 400, 250, 4000
"""Microseconds for which the device is held while a call's launches are queued: at first, and as the call shows."""
DELAY_FACTOR = 2.5
ROW_DELAY_FACTOR, ROW_DELAY, MOST_ROW_DELAY = 1.5, 12, 60_000
"""As above, for all launches of a row of calls; added for each is what it takes to order cold caches."""
LIMITS = WorkerLimits(memory=16 << 30)
"""The driver maps much that is not memory."""
KERNEL = "kernel.so"
_GONE_SECONDS = 10.0
_FREE_SECONDS = 1.0
"""For memory that others on the device take and give back too: waited for, not insisted on."""
CONTEXT_BYTES = 64 << 20
"""At least what a worker's context takes of the device (half a gigabyte on an H200)."""


@dataclass(frozen=True)
class Host:
    """The device as workers see it."""

    uuid: str
    instruments: Path
    sandbox: Sandbox
    monitor: Monitor | None
    cold: ColdCache | None = None
    """As workers have one of their own; None where no rows of calls are asked for."""


def wait_until_left(monitor: Monitor, left: Callable[[frozenset[int]], bool]) -> None:
    """Return when the processes that compute on the device are as `left` wants them. InfrastructureError when the
    device does not let go of one that has ended."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (computing := monitor.processes()) is not None and not left(computing):
        if time.monotonic() > deadline:
            raise InfrastructureError("the device still holds the memory of a process that has ended")
        time.sleep(0.005)


def wait_until_free(free: Callable[[], int], wanted: int) -> bool:
    """Return when so many bytes are free, or in any case after a second: whether they are."""
    deadline = time.monotonic() + _FREE_SECONDS
    while free() < wanted:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def free_bytes() -> int:
    """Of the device's memory, whoever holds the rest. Needs a current context."""
    return int(cuda.mem_get_info()[0])


def device_files() -> tuple[Path, ...]:
    """The driver's files in /dev."""
    return tuple(sorted(path for path in Path("/dev").glob("nvidia*") if path.is_char_device()))


def driver_environment(uuid: str) -> dict[str, str]:
    """What CUDA needs of the environment, and which device it may see."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {**kept, "CUDA_VISIBLE_DEVICES": uuid, "CUDA_CACHE_DISABLE": "1", "CUDA_MODULE_LOADING": "EAGER"}


@contextmanager
def _no_kernel_to_blame() -> Iterator[None]:
    """A worker that ends before it holds a kernel is the machine's fault."""
    try:
        yield
    except WorkerFailed as failure:
        raise InfrastructureError(
            f"a worker does not come up: it {failure.message}: {failure.output[-300:]}", "Run `warpsmith doctor`."
        ) from failure


class CudaWorker(Worker):
    """A `Worker` whose kernel runs on a GPU. Its `Call.inner` is the time between events around the kernel's work, with
    launches queued ahead; `outer` is the judge's span less the delay and the copy that it ordered itself.

    All of them have the same addresses, since these matter for time, and more than where arrays lie in the device's
    memory: on an H200 a softmax takes 8.0 to 9.5 us at one address or another
    (tests/golden/h200/speed/addresses.json).

    Pausing stops its threads, not the device: what the device still does has no part in what `fetch` brings.

    It comes up without its kernel, beside whatever the judge does meanwhile, and takes one in when it is told to.
    """

    def __init__(
        self, buffers: Sequence[WorkloadBuffers], host: Host, pool: OutputPool, number: int | None = None
    ) -> None:
        """Begins to start at once; nothing but `load` and `close` may follow. Its outputs are the pool's of that
        number. InfrastructureError when it can't."""
        self._host = host
        self._pool, self._number = pool, number
        self._free_beside: int | None = None
        """Bytes that were free beside its context, where the driver's list of processes does not have it: in a
        container that numbers processes in its own way, that it is not there says nothing."""
        self._delays = [DELAY] * len(buffers)
        self._outrun = False
        self._launching = [0] * len(buffers)
        self._row = (0, 0)
        """Calls in a row that the next request asks for, and their delay."""
        self._row_launching = 0
        self._inbox = cuda_programs.inbox()
        self.buffers = tuple(buffers)
        self._current: int | None = None
        """The kernel that calls go to."""
        super().__init__(self._inbox / KERNEL, buffers, LIMITS, host.sandbox)

    def load(self, library: Path, number: int = 0) -> None:
        """Wait until it is up, and have it take this kernel in: it is ready for calls then. WorkerFailed when the
        library does not load, InfrastructureError when the worker did not start. Variants of one kernel, of which
        nothing is believed but that they are worth a closer look, may share a worker by their numbers."""
        try:
            if self._current is None:
                self._come_up()
            shutil.copyfile(library, self._inbox / (f"{KERNEL}.{number}" if number else KERNEL))
            self._order(number)
        except BaseException:
            self.close()
            raise

    def _come_up(self) -> None:
        with _no_kernel_to_blame():
            self._settle(self._launched)
        computing = self._host.monitor.processes() if self._host.monitor is not None else None
        if computing is not None and self.pid not in computing:
            self._free_beside = free_bytes()

    def use(self, number: int) -> None:
        """Call this one of the kernels that it has taken in from now on."""
        if number != self._current:
            self._order(number)

    @property
    def worker(self) -> Worker:
        return self

    def _order(self, number: int) -> None:
        paused = self._paused
        self._send(REQUEST.pack(0, LOAD, number))
        if paused:
            self.resume()
        self._require_ready()
        if paused:
            self.pause()
        self._current = number

    def disturbed(self) -> bool:
        """Whether it was throttled, or idle because the kernel's launches took longer than the device was held."""
        return self._outrun or (self.clock is not None and self.clock.slowed)

    def close(self) -> None:
        """Kill it; returns when its processes are gone and the device holds nothing of theirs."""
        pid, self.pid = self.pid or self._inner_pid(), 0
        super().close()
        shutil.rmtree(self._inbox, ignore_errors=True)
        beside, self._free_beside = self._free_beside, None  # one that is closed again has nothing left to wait for
        if beside is not None:
            wait_until_free(free_bytes, beside + CONTEXT_BYTES)
        elif pid and self._host.monitor is not None:
            wait_until_left(self._host.monitor, lambda computing: pid not in computing)
        if self.outputs:
            self._pool.take_back(self.outputs)
            self.outputs = ()

    def _start(self, library: Path, sandbox: Sandbox) -> None:
        with _no_kernel_to_blame():
            self._launched = self._spawn(library, sandbox)

    def _inner_pid(self) -> int:
        """Its process as the driver numbers it, while it is not known to be up."""
        if self._process is None or self._process.returncode is not None:
            return 0
        return [self._process.pid, *descendants(self._process.pid)][-1]

    def _make_outputs(self) -> tuple[OutputBuffers, ...]:
        return self._pool.lend(self._number)

    def _free_outputs(self) -> None:
        """They are the pool's, which gets them back when the device has let go of the process."""

    def _device_inputs(self) -> list[DeviceInputs]:
        return [each for each in self._buffers if isinstance(each, DeviceInputs)]

    def _launch(self, library: Path, requests: int, answers: int) -> Launch:
        package, folders = cuda_programs.worker_package(), cuda_programs.python_folders()
        outputs = [each for each in self.outputs if isinstance(each, DeviceOutputs)]
        workloads, shared = [], []
        for inputs, output in zip(self._device_inputs(), outputs, strict=True):
            blocks = {"inputs": inputs.block, "outputs": output.block, "snapshot": output.snapshot}
            shared += [block.fd for block in blocks.values()]
            workloads.append(
                {
                    **{name: (block.fd, block.size) for name, block in blocks.items()},
                    "host": inputs.read_only_fd,
                    "slots": [_slot(slot, inputs, output) for slot in inputs.slots],
                }
            )
        host = [each.read_only_fd for each in self._buffers]
        plan = json.dumps({"device": 0, "workloads": workloads, "descriptors": [*shared, *host]}).encode()
        instruments = self._host.instruments
        restraint = (cuda_programs.restraint(),) if self._host.sandbox.seccomp else ()
        return Launch(
            command=(
                *(str(cuda_programs.python()), "-P", "-m", cuda_programs.WORKER),
                *(str(requests), str(answers), str(library), str(instruments), *map(str, restraint)),
            ),
            policy=Confinement(
                read_only=(
                    package,
                    *folders,
                    cuda_programs.python_home(),
                    library.parent,
                    instruments,
                    *restraint,
                    *cuda_vendor.folders(),
                    Path("/sys"),
                ),
                devices=device_files(),
                open_files=1024,
                proc=True,
                fixed_addresses=True,
            ),
            environment={
                **driver_environment(self._host.uuid),
                "PYTHONPATH": ":".join(map(str, (package, *folders))),
                "PYTHONDONTWRITEBYTECODE": "1",
                "OPENBLAS_NUM_THREADS": "1",
            },
            fds=(*shared, *host),
            plan=struct.pack("=I", len(plan)) + plan,
            opens_files=True,  # the driver does, at any time
        )

    def row(self, workload: int, calls: int, timeout: float, *, held: bool) -> tuple[float, bool] | None:
        launching = calls * (ROW_DELAY_FACTOR * self._launching[workload] + ROW_DELAY)
        delay = min(round(launching), MOST_ROW_DELAY) if held else 0
        output, cold = self.outputs[workload], self._host.cold
        assert isinstance(output, DeviceOutputs) and cold is not None
        copies = 2 * output.copy_seconds_in_a_row() + calls * output.copy_seconds_in_a_row(cold if held else None)
        self._row = (calls, delay)
        try:
            outer = self._ask(workload, timeout + calls * 1e-3, True).outer
        finally:
            self._row = (0, 0)
        return (outer - delay * 1e-6 - copies) / calls, self._row_launching <= delay

    def _request(self, nonce: int, workload: int) -> bytes:
        calls, delay = self._row
        if calls:
            return REQUEST.pack(nonce, workload, delay | calls << CALLS_SHIFT)
        return REQUEST.pack(nonce, workload, self._delays[workload] if workload >= 0 else 0)

    def _reading(self, workload: int, message: Message, outer: float) -> Call:
        if workload < 0:
            return Call(0.0, outer)
        if self._row[0]:
            self._row_launching = message.number
            return Call(0.0, outer)
        output = self.outputs[workload]
        assert isinstance(output, DeviceOutputs)
        if self._host.monitor is not None:
            self.clock = self._host.monitor.clock()
        delay = self._delays[workload]
        own = delay * 1e-6 + output.copy_seconds
        self._launching[workload] = message.number
        self._delays[workload] = _delay_for(message.number)
        self._outrun = message.number > 0.8 * delay and self._delays[workload] > delay
        return Call(message.value * 1e-9, outer - own)


def end_together(workers: Sequence[Worker]) -> None:
    """Close them all: the device takes its time to let go of each, and does so of several at once."""
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.close()


def _delay_for(launching: int) -> int:
    """Microseconds to hold the device for launches that take so many. None at all where they take too long: a kernel
    that works on the host, or waits for the device, has no launches to queue, and its events tell all of its time."""
    wanted = max(round(DELAY_FACTOR * launching), LEAST_DELAY)
    return wanted if wanted <= MOST_DELAY else 0


def _slot(slot: Slot, inputs: DeviceInputs, outputs: DeviceOutputs) -> tuple[str, int]:
    """Kind, and what is added to the block's address: an offset in its arena, or a value."""
    if slot.kind == "value":
        return slot.kind, slot.value
    return slot.kind, (outputs if slot.kind == "output" else inputs).spans[slot.name].offset
