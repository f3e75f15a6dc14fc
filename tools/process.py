"""Runs a command to its end under a time, output and memory limit, and leaves nothing of it behind.

Not covered: a process that left the command's session, gave up its environment and outlived its parent. Commands that
could do so run inside a sandbox, whose pid namespace or ban on fork ends them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from tools.environment import without_secrets
from tools.errors import InfrastructureError

MARK = "WARPSMITH_COMMAND"
"""Environment variable by which what a command started is recognised when it has left the command's session."""

_WATCH_SECONDS = 0.05
_GONE_SECONDS = 10.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Leader(Protocol):
    """A process that leads its own session, as `subprocess.Popen` starts one."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """None until it was waited for; -n for a death by signal n."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. subprocess.TimeoutExpired when it runs on."""
        ...


@dataclass(frozen=True)
class Completed:
    """How a command ended. Exactly one of `exit_code` and `signal` is set. Streams are decoded with replacement."""

    argv: tuple[str, ...]
    exit_code: int | None
    signal: int | None
    timed_out: bool
    out_of_memory: bool
    stdout: str
    stderr: str
    seconds: float
    truncated: bool

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out and not self.out_of_memory


@dataclass
class _Stream:
    """The kept part of one output stream."""

    limit: int
    kept: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def take(self, chunk: bytes) -> None:
        room = self.limit - len(self.kept)
        self.kept += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room

    def text(self) -> str:
        return self.kept.decode(errors="replace")


def run_command(
    argv: Sequence[str],
    *,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    output_limit: int = 1 << 20,
    memory_limit: int | None = None,
    pass_fds: Sequence[int] = (),
    stop: int | None = None,
) -> Completed:
    """Run `argv` in its own session and wait for it; then nothing that it started is left.

    `env` replaces the environment (None inherits it, without secrets). At `timeout` seconds, or when the tree's
    resident memory exceeds `memory_limit` bytes, the whole tree is killed and the output so far is returned; also when
    the descriptor `stop` becomes readable, which counts as a timeout. Each stream keeps at most `output_limit` bytes;
    the rest is read and dropped (`truncated`). InfrastructureError when it can't be started.
    """
    mark = secrets.token_hex(8)
    environment = {**(without_secrets() if env is None else env), MARK: mark}
    start = time.monotonic()
    with _file_of(stdin) as stdin_fd:
        try:
            process = subprocess.Popen(
                argv,
                stdin=stdin_fd,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=environment,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        except OSError as error:
            raise InfrastructureError(f"{argv[0]} can't be started: {error.strerror}") from error
    stdout, stderr = _Stream(output_limit), _Stream(output_limit)
    try:
        with selectors.DefaultSelector() as selector:
            for pipe, stream in ((process.stdout, stdout), (process.stderr, stderr)):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, stream)
            timed_out, out_of_memory = _attend(process, selector, start + timeout, memory_limit, stop)
            end_tree(process, mark)
            _drain(selector)
    finally:
        end_tree(process, mark)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    code = process.returncode
    return Completed(
        argv=tuple(argv),
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        timed_out=timed_out,
        out_of_memory=out_of_memory,
        stdout=stdout.text(),
        stderr=stderr.text(),
        seconds=time.monotonic() - start,
        truncated=stdout.truncated or stderr.truncated,
    )


@contextlib.contextmanager
def _file_of(content: bytes) -> Iterator[int]:
    """A descriptor that reads `content`; a memory file, so that a child that does not read can't block us."""
    if not content:
        yield subprocess.DEVNULL
        return
    fd = os.memfd_create("stdin")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def _attend(
    process: subprocess.Popen[bytes],
    selector: selectors.BaseSelector,
    deadline: float,
    memory_limit: int | None,
    stop: int | None,
) -> tuple[bool, bool]:
    """Read output until the process ends or breaks a limit: (timed out, out of memory)."""
    pidfd = os.pidfd_open(process.pid)
    own = [fd for fd in (pidfd, stop) if fd is not None]
    for fd in own:
        selector.register(fd, selectors.EVENT_READ)
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return True, False
            for key, _ in selector.select(left if memory_limit is None else min(left, _WATCH_SECONDS)):
                if key.fd in own:
                    return key.fd == stop, False
                _take(selector, key)
            if memory_limit is not None and tree_memory(process.pid) > memory_limit:
                return False, True
    finally:
        for fd in own:
            selector.unregister(fd)
        os.close(pidfd)


def _take(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> bool:
    """Move what a pipe holds, up to a pipe's size, to its stream; False when there is nothing more."""
    try:
        chunk = os.read(key.fd, 1 << 16)
    except BlockingIOError:
        return False
    if not chunk:
        selector.unregister(key.fileobj)
        return False
    key.data.take(chunk)
    return True


def _drain(selector: selectors.BaseSelector) -> None:
    for key in list(selector.get_map().values()):
        while _take(selector, key):
            pass


def end_tree(process: Leader, mark: str | None = None) -> None:
    """Kill a process that leads its own session, with all below it and all that carry `mark`; return when all are gone.

    InfrastructureError when one of them does not die. Safe to call again.
    """
    victims = _marked(mark) if mark else []
    if process.returncode is None:  # not reaped yet, so neither its id nor its group's can belong to another
        victims += descendants(process.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for pid in victims:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + _GONE_SECONDS
    while any(is_running(pid) for pid in victims):
        if time.monotonic() > deadline:
            raise InfrastructureError("a killed process does not end", "It may be stuck in the kernel; see `ps`.")
        time.sleep(0.0005)


def descendants(pid: int) -> list[int]:
    """Process ids below `pid`, nearest first, as seen from here (also those inside its pid namespaces)."""
    found, queue = [], [pid]
    while queue:
        parent = queue.pop(0)
        children: list[int] = []
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                children += map(int, _read(f"{task}/children").split())
        found += children
        queue += children
    return found


def is_running(pid: int) -> bool:
    """Whether `pid` exists and is more than a zombie."""
    state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1]
    return bool(state) and state[0] not in (b"Z", b"X")


class Resident(NamedTuple):
    """Bytes of a process in memory."""

    total: int
    private: int
    """Without files and shared memory."""


def resident(pid: int) -> Resident:
    """Zeros when the process is gone."""
    sizes = [int(word) * _PAGE for word in _read(f"/proc/{pid}/statm").split()[1:3]]
    return Resident(sizes[0], sizes[0] - sizes[1]) if sizes else Resident(0, 0)


def tree_memory(pid: int) -> int:
    """Resident bytes of `pid` and all below it (shared pages are counted once for each process)."""
    return sum(resident(each).total for each in (pid, *descendants(pid)))


def _marked(mark: str) -> list[int]:
    """Processes whose environment carries `mark`."""
    wanted = f"{MARK}={mark}".encode()
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if wanted in _read(f"/proc/{pid}/environ").split(b"\0")]


def _read(path: str) -> bytes:
    """A /proc file's content, empty when the process is gone or not ours."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
