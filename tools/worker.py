"""The judge's handle on a worker: one sandboxed native process that holds one kernel and nothing worth stealing.

Not covered: what a kernel does to its own process. It may lie about the inner clock or answer early; the outer clock,
`freeze_on_answer` and fresh content in every call are the defences, and they are the judge's to use.
"""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.errors import InfrastructureError
from tools.messages import Kind
from tools.nvml import Clock
from tools.process import Leader, descendants
from tools.sandbox import Confinement, Sandbox, detect
from tools.watched import Watched, thread_states
from tools.wire import Message, WorkerFailed, encode_plan, encode_request, explain
from tools.worker_limits import WorkerLimits, WorkerVariant, confinement, environment, program

__all__ = ["Call", "Worker", "WorkerFailed", "WorkerLimits"]


@dataclass(frozen=True)
class Launch:
    """How a worker's program is started."""

    command: tuple[str, ...]
    policy: Confinement
    environment: dict[str, str]
    fds: tuple[int, ...]
    plan: bytes
    """What it is sent first."""
    opens_files: bool = False
    """Whether it may do so when it has loaded the kernel: a sanitizer reads debug information when it reports."""


class Call(NamedTuple):
    """Seconds of one call by two clocks."""

    inner: float
    """By the worker's clock, around the kernel's entry alone (the worker may lie)."""
    outer: float
    """By the judge's clock, from the request to the answer (includes the round trip, see `Worker.ping`)."""


class Worker(Watched):
    """A started worker: library loaded, buffers mapped, every limit in force. Use as a context manager.

    `outputs[i]` are this worker's output buffers of workload i; `pid` is its process as numbered out here. Must be
    started from a thread that outlives it (its death signal is bound to the thread that started it).
    """

    def __init__(
        self,
        library: Path,
        buffers: Sequence[WorkloadBuffers],
        limits: WorkerLimits | None = None,
        sandbox: Sandbox | None = None,
        variant: WorkerVariant = "release",
    ) -> None:
        """Starts at once. WorkerFailed when the library does not load or breaks a rule while it does;
        InfrastructureError when the worker itself can't be started."""
        super().__init__(limits or WorkerLimits(), variant)
        self._buffers = tuple(buffers)
        self._paused = False
        self.clock: Clock | None = None
        """The device's own clock as the last answer came, where it has one."""
        self.clocked = True
        """Whether the time of the next call counts; a worker may look closer at one that does not."""
        self.outputs: tuple[OutputBuffers, ...] = ()
        try:
            self.outputs = self._make_outputs()
            self._start(library, sandbox or detect())
        except BaseException:
            self.close()
            raise

    def call(self, workload: int, timeout: float, freeze_on_answer: bool = False) -> Call:
        """Run the kernel once on the current content. A paused worker is resumed, inside the outer clock.

        With `freeze_on_answer` every thread is stopped the moment the answer arrives, before this returns; the
        worker stays paused. WorkerFailed ends the worker.
        """
        if not 0 <= workload < len(self._buffers):
            raise ValueError(f"there is no workload {workload}")
        return self._ask(workload, timeout, freeze_on_answer)

    def row(self, workload: int, calls: int, timeout: float, *, held: bool) -> tuple[float, bool] | None:
        """Seconds a call, by the judge's clock alone, of so many calls in a row, and whether all of them were queued
        before the first began, which `held` asks for. None where such rows can't be had. The worker stays paused."""
        del workload, calls, timeout, held
        return None

    def ping(self, timeout: float = 5.0) -> Call:
        """An empty request: the round trip that `Call.outer` contains. Pause first, as before a call."""
        return self._ask(-1, timeout, False)

    def pause(self) -> None:
        """Stop every thread and return when they are seen to be stopped."""
        self._signal(signal.SIGSTOP)
        self._paused = True
        deadline = time.monotonic() + 5
        while any(state not in "TtZX" for state in thread_states(self.pid)):
            if time.monotonic() > deadline:
                self._fail(InfrastructureError("a worker can't be stopped"))

    def resume(self) -> None:
        """Let a paused worker go on."""
        self._signal(signal.SIGCONT)
        self._paused = False

    def disturbed(self) -> bool:
        """Whether the device ran below its speed in the last call, so that its time says nothing. Never known here."""
        return False

    def cpu_seconds(self) -> float:
        """CPU time used so far by all its threads, from the kernel's own clock (nanosecond resolution)."""
        return time.clock_gettime(~self.pid << 3 | 2)  # the kernel's number for the CPU clock of a process

    def caller_seconds(self) -> float | None:
        """CPU time of the thread that calls the kernel, exact while it is stopped; None where no system tells it."""
        try:
            return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()[0]) * 1e-9
        except (OSError, IndexError, ValueError):
            return None

    def mapped_libraries(self) -> tuple[str, ...]:
        """Base names of the files mapped executable into it now, without the worker itself."""
        rows = (line.split(maxsplit=5) for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines())
        names = (Path(row[5]).name for row in rows if len(row) == 6 and "x" in row[1] and row[5].startswith("/"))
        return tuple(name for name in dict.fromkeys(names) if not name.startswith("worker"))

    def close(self) -> None:
        """Kill it; returns when all its processes are seen to be gone."""
        super().close()
        self._free_outputs()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------------- start

    def _start(self, library: Path, sandbox: Sandbox) -> None:
        self._settle(self._spawn(library, sandbox))

    def _spawn(self, library: Path, sandbox: Sandbox) -> Launch:
        """Start the process and hand it its plan, without waiting for what it says to it."""
        requests, self._requests = self._pipe()
        self._answers, answers = self._pipe()
        self._output, output = self._pipe()
        launch = self._launch(library, requests, answers)
        self._process = self._begin(launch, sandbox, (requests, answers), output)
        for fd in (requests, answers, output):
            os.close(fd)
            self._fds.remove(fd)
        os.set_blocking(self._output, False)
        self._ended = os.pidfd_open(self._process.pid)
        self._fds.append(self._ended)
        self._poll = select.poll()
        for fd in (self._answers, self._output, self._ended):
            self._poll.register(fd, select.POLLIN)
        self._send(launch.plan)
        return launch

    def _begin(self, launch: Launch, sandbox: Sandbox, channel: tuple[int, int], output: int) -> Leader:
        """Start the program; what it prints goes to the descriptor `output`."""
        try:
            return subprocess.Popen(
                sandbox.wrap(launch.command, launch.policy),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=launch.environment,
                pass_fds=(*channel, *launch.fds),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise InfrastructureError(f"the worker can't be started: {error.strerror}") from error

    def _explain(self, message: Message | None, output: str) -> WorkerFailed:
        """The failure behind a message that is not the awaited answer."""
        return explain(message, self._buffers, self._limits.memory, output)

    def _settle(self, launch: Launch) -> None:
        """Wait until the process is ready, and take from it what it needs no more."""
        self._require_ready()
        assert self._process is not None
        self.pid = [self._process.pid, *descendants(self._process.pid)][-1]
        self._pidfd = os.pidfd_open(self.pid)
        self._fds.append(self._pidfd)
        if not launch.opens_files:
            self._take_descriptors()
        with contextlib.suppress(OSError):  # should the machine run out of memory, the worker goes first
            Path(f"/proc/{self.pid}/oom_score_adj").write_text("1000")

    def _require_ready(self) -> None:
        message = self._await(self._limits.start_timeout)
        if message.kind == Kind.NOT_CONFINED:
            why = message.text or "the kernel refused its seccomp rules"
            self._fail(InfrastructureError(f"a worker can't start here: {why}", "Run `warpsmith doctor`."))
        if message.kind != Kind.READY:
            self._fail(self._explain(message, self._final_output()))

    def _take_descriptors(self) -> None:
        """From now on it gets no new descriptor, so it can open nothing. Done from out here, where the kernel's
        constructors, which have run, can't have prepared an answer for it."""
        try:
            resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (0, 0))
        except ProcessLookupError:
            return  # its end is seen at the next request
        except OSError as error:
            self._fail(InfrastructureError(f"a worker can't be confined: {error.strerror}", "Run `warpsmith doctor`."))

    def _make_outputs(self) -> tuple[OutputBuffers, ...]:
        return tuple(OutputBuffers(each) for each in self._buffers)

    def _free_outputs(self) -> None:
        for output in self.outputs:
            output.close()

    def _launch(self, library: Path, requests: int, answers: int) -> Launch:
        """The program, told where to read requests, where to answer, and what to map."""
        spans = [
            span.bytes for arena in (self._buffers, self.outputs) for each in arena for span in each.spans.values()
        ]
        return Launch(
            command=(str(program(self._variant)), str(requests), str(answers), str(library)),
            policy=confinement(self._variant, self._limits, library, spans),
            environment=environment(self._variant, self._limits),
            fds=(*(each.read_only_fd for each in self._buffers), *(each.fd for each in self.outputs)),
            plan=encode_plan(self._buffers, self.outputs),
            opens_files=self._variant == "asan",
        )

    # -------------------------------------------------------------------------------------------------------- talk

    def _ask(self, workload: int, timeout: float, freeze: bool) -> Call:
        if self._process is None:
            raise InfrastructureError("the worker is closed")
        self.check()
        nonce = secrets.randbits(64)
        request = self._request(nonce, workload)
        start = time.perf_counter_ns()
        self._send(request)
        if self._paused:  # inside the clock: no thread of the kernel's runs before the judge counts
            self.resume()
        message = self._await(timeout, freeze)
        if freeze:
            self.pause()
        if message.kind != Kind.DONE or message.nonce != nonce:
            self._watch()  # a limit that it passed explains what it then met
            self._fail(self._explain(message, self._final_output()))
        return self._reading(workload, message, (self._answered - start) * 1e-9)

    def _request(self, nonce: int, workload: int) -> bytes:
        return encode_request(nonce, workload)

    def _reading(self, workload: int, message: Message, outer: float) -> Call:
        """What the two clocks say of the call alone."""
        del workload
        return Call(message.value * 1e-9, outer)
