"""A process that is asked over pipes and held to its limits: what it answers, prints and uses, and how it ends."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import NoReturn

from tools.errors import InfrastructureError
from tools.messages import MESSAGE_BYTES
from tools.process import Leader, end_tree, resident
from tools.records import Reason
from tools.sandbox import REFUSED
from tools.wire import Message, WorkerFailed, decode, explain_exit, no_memory, oom_kills
from tools.worker_limits import WorkerLimits, WorkerVariant, resident_limit

_WATCH_SECONDS = 0.02
_KEPT_OUTPUT = 64 << 10


class Watched(ABC):
    """The talk with one process, whoever starts it, and its end. `pid` is its number out here, 0 until it is ready."""

    _requests: int
    _answers: int
    _output: int
    """Ends of the pipes to it."""
    _poll: select.poll
    """Of what it answers and prints, and of its end."""
    _answered: int
    """When the last message was there, in nanoseconds."""

    def __init__(self, limits: WorkerLimits, variant: WorkerVariant) -> None:
        self._limits = limits
        self._variant = variant
        self._printed = bytearray()
        self._printed_bytes = 0
        self._fds: list[int] = []
        self._process: Leader | None = None
        self._oom_kills = oom_kills()
        self._pidfd = -1
        self.pid = 0

    def check(self) -> None:
        """See what came since the last answer: WorkerFailed for a report, an answer too many, a flood or an end."""
        for fd, _ in self._poll.poll(0):
            if fd == self._output:
                self._take_output()
            else:
                self._fail(self._next_failure())

    def running(self) -> bool:
        """Whether any thread is running or waits for a core."""
        return "R" in thread_states(self.pid)

    def threads(self) -> int:
        return len(thread_states(self.pid))

    def output_text(self) -> str:
        """What it has printed so far, trimmed."""
        return self._printed.decode(errors="replace")

    @property
    def closed(self) -> bool:
        """Whether it was ended, by us or for what it did."""
        return self._process is None

    def kill(self) -> None:
        """Kill it without waiting for its end, so that several end at the same time; `close` it too."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill it; returns when all its processes are seen to be gone."""
        if self._process is not None:
            end_tree(self._process)
            self._process = None
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    @abstractmethod
    def _explain(self, message: Message | None, output: str) -> WorkerFailed:
        """The failure behind a message that is not the awaited answer."""

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe2(os.O_CLOEXEC)
        self._fds += ends
        return ends

    def _send(self, data: bytes) -> None:
        try:
            os.write(self._requests, data)
        except BrokenPipeError:
            self._fail(self._next_failure())

    def _await(self, timeout: float, freeze: bool = False) -> Message:
        """The next message; `_answered` is when it was there, and with `freeze` the worker is told to stop right then.

        WorkerFailed when a limit is broken before it comes.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                self._fail(self._failure("timeout", f"did not return within {timeout:g} s"))
            events = self._poll.poll(1000 * min(left, _WATCH_SECONDS))
            self._answered = time.perf_counter_ns()
            if freeze and any(fd == self._answers for fd, _ in events):
                self._signal(signal.SIGSTOP)  # before anything else: what comes after the clock stopped does not count
            for fd, _ in events:
                if fd == self._output:
                    self._take_output()
                elif fd == self._answers and (message := self._read_answer()) is not None:
                    return message
                else:
                    self._fail(self._next_failure())
            if not events:
                self._watch()

    def _read_answer(self) -> Message | None:
        return decode(os.read(self._answers, MESSAGE_BYTES))

    def _next_failure(self) -> WorkerFailed | InfrastructureError:
        """Why the worker is about to be closed: what it reported, else how it ended."""
        data = b""
        if select.select([self._answers], [], [], 0)[0]:
            data = os.read(self._answers, MESSAGE_BYTES)
        output = self._final_output()
        if data:
            return self._explain(decode(data), output)
        assert self._process is not None
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return WorkerFailed("forged_answer", "closed its channel to the judge", output)
        if self.pid == 0 and (code == REFUSED or output.startswith(("bwrap:", "jail:"))):
            return InfrastructureError(
                f"the worker's sandbox failed: {output.strip()[:300]}", "Run `warpsmith doctor`."
            )
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL) and oom_kills() == self._oom_kills:
            return InfrastructureError("something outside the judge killed the worker", "Judge the kernel again.")
        return explain_exit(code, self._limits.memory, output)

    def _take_output(self) -> None:
        try:
            chunk = os.read(self._output, 1 << 16)
        except BlockingIOError:
            return
        if not chunk:
            self._poll.unregister(self._output)
            return
        self._printed_bytes += len(chunk)
        self._printed += chunk[: _KEPT_OUTPUT - len(self._printed)]
        if self._printed_bytes > self._limits.output:
            self._fail(self._failure("output_flood", f"printed more than {self._limits.output} bytes"))

    def _final_output(self) -> str:
        with contextlib.suppress(OSError):
            while len(self._printed) < _KEPT_OUTPUT and (chunk := os.read(self._output, 1 << 16)):
                self._printed += chunk[: _KEPT_OUTPUT - len(self._printed)]
        return self.output_text()

    def _watch(self) -> None:
        """End a worker that uses too much memory or too many threads."""
        if self._process is None or self.pid == 0:
            return
        if resident(self.pid).private > resident_limit(self._variant, self._limits):
            self._fail(no_memory(self._limits.memory, self._final_output()))
        if self.threads() > self._limits.threads:
            self._fail(self._failure("forbidden_syscall", f"started more than {self._limits.threads} threads"))

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # its end is seen at the next request
            signal.pidfd_send_signal(self._pidfd, number)

    def _failure(self, reason: Reason, message: str) -> WorkerFailed:
        return WorkerFailed(reason, message, self._final_output())

    def _fail(self, failure: WorkerFailed | InfrastructureError) -> NoReturn:
        self.close()
        raise failure


def thread_states(pid: int) -> list[str]:
    """State letters of the threads of `pid`."""
    states = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
    return states
