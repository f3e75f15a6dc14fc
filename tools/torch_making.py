"""Runs the builder of a torch kernel (`tools.torch_builder`) within its limits, and hears what it says."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.errors import InfrastructureError
from tools.process import end_tree, tree_memory
from tools.sandbox import REFUSED, Confinement
from tools.torch_host import (
    Forked,
    compilers,
    device_paths,
    driver_folder,
    forked_sandbox,
    python_folders,
    torch_server,
)
from tools.torch_load import MADE, SOURCES
from tools.torch_process import Home
from tools.wire import oom_kills

IMPORT_SECONDS = 300.0
"""For the kernel's file with all that it compiles: nvcc takes half a minute for one that includes PyTorch's headers."""
CALL_SECONDS = 60.0
"""For the first call on each workload, together."""
MEMORY = 48 << 30
"""Resident bytes of the import and its compilers."""
FILE_SIZE = 1 << 30
KEPT_OUTPUT = 64 << 10


@dataclass
class Outcome:
    """What the builder said and how it ended."""

    told: dict[str, Any] = field(default_factory=dict)
    called: bool = False
    output: str = ""
    limit: str = ""
    seconds: float = 0.0
    code: int = 0


def made(folder: Path, plans: list[Any], home: Home, architecture: str | None) -> Outcome:
    """Have the builder do it, within the limits. InfrastructureError when the sandbox fails."""
    requests, answers, output = os.pipe(), os.pipe(), os.pipe()
    kills = oom_kills()
    process: Forked | None = None
    try:
        server = torch_server(home.target, home.uuid)
        policy, environment = _confinement(folder, home, architecture)
        fds = (requests[0], answers[1], output[1])
        process = server.fork("torch_builder", forked_sandbox(), policy, environment, fds)
        for fd in fds:
            os.close(fd)
        seen = home.target == "cpu" or home.uuid is not None  # without a GPU nothing can be called
        plan = json.dumps({"folder": str(folder), "device": home.target, "calls": plans if seen else []}).encode()
        with contextlib.suppress(BrokenPipeError):  # its end is seen below
            os.write(requests[1], struct.pack("=I", len(plan)) + plan)
        begin = time.monotonic()
        outcome = _attended(process, answers[0], output[0])
        outcome.seconds = time.monotonic() - begin
        end_tree(process)
    finally:
        if process is not None:
            end_tree(process)
        else:
            for fd in (requests[0], answers[1], output[1]):
                os.close(fd)
        for fd in (requests[1], answers[0], output[0]):
            os.close(fd)
    outcome.code = process.wait()
    killed = outcome.code in (-signal.SIGKILL, 128 + signal.SIGKILL) and not outcome.told and not outcome.limit
    if killed and (oom_kills() == kills or not server.alive):
        raise InfrastructureError("something outside the judge killed the builder", "Judge the kernel again.")
    if not outcome.told and (outcome.code == REFUSED or outcome.output.startswith("jail:")):
        raise InfrastructureError(f"the builder's sandbox failed: {outcome.output[:300]}", "Run `warpsmith doctor`.")
    return outcome


def _attended(process: Forked, answers: int, output: int) -> Outcome:
    """Read what comes until it is over, the process has ended, or a limit is met."""
    heard = _Heard(answers, output)
    deadline = time.monotonic() + IMPORT_SECONDS
    ended = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        for fd in (answers, output, ended):
            os.set_blocking(fd, False)
            poll.register(fd, select.POLLIN)
        while not heard.outcome.called:
            left = deadline - time.monotonic()
            if left <= 0 or tree_memory(process.pid) > MEMORY:
                heard.outcome.limit = f"{MEMORY >> 30} GiB of memory" if left > 0 else f"{IMPORT_SECONDS:g} s"
                break
            ready = {fd for fd, _ in poll.poll(min(left, 0.25) * 1e3)}
            was_built = bool(heard.outcome.told)
            for fd in heard.take(ready):
                poll.unregister(fd)
            if ended in ready:  # what it wrote before is read above
                heard.take({answers, output})
                break
            if heard.outcome.told and not was_built:
                deadline = time.monotonic() + CALL_SECONDS
    finally:
        os.close(ended)
    if heard.outcome.told:
        heard.outcome.limit = ""  # what the first calls do is for the judge to see
    heard.outcome.output = heard.printed.decode(errors="replace")
    return heard.outcome


class _Heard:
    """What came over the two pipes so far."""

    def __init__(self, answers: int, output: int) -> None:
        self._answers, self._output = answers, output
        self._said = bytearray()
        self.printed = bytearray()
        self.outcome = Outcome()

    def take(self, ready: set[int]) -> list[int]:
        """Read all that is there; the pipes that have ended."""
        over = []
        for fd in {self._answers, self._output} & ready:
            while chunk := _chunk(fd):
                if fd == self._answers:
                    self._said += chunk
                else:
                    self.printed += chunk[: KEPT_OUTPUT - len(self.printed)]
            if chunk is not None:
                over.append(fd)
        for told in _messages(self._said):
            self.outcome.called = self.outcome.called or "called" in told or told.get("built") is False
            if "built" in told and not self.outcome.told:
                self.outcome.told = told
        return over


def _chunk(fd: int) -> bytes | None:
    """What is there, empty at the end, None when there is nothing now."""
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return None


def _messages(said: bytearray) -> Iterator[dict[str, Any]]:
    """Whole messages, taken from the front."""
    while len(said) >= 4:
        (size,) = struct.unpack_from("=I", said)
        if len(said) < 4 + size:
            return
        try:
            told = json.loads(bytes(said[4 : 4 + size]))
        except ValueError:
            told = {}
        del said[: 4 + size]
        if isinstance(told, dict):
            yield told


def _confinement(folder: Path, home: Home, architecture: str | None) -> tuple[Confinement, dict[str, str]]:
    folders, environment = compilers(home.target)
    readable, devices = device_paths(home.target) if home.uuid is not None else ((), ())
    made = folder / MADE
    found = driver_folder()
    policy = Confinement(
        read_only=(*python_folders(), *folders, *readable, folder / SOURCES),
        writable=(made,),
        devices=devices,
        file_size=FILE_SIZE,
        open_files=1024,
        allow_fork=True,
        proc=True,
        observed=True,  # its parent is the server
    )
    own = {
        "HOME": str(made),
        "TMPDIR": str(made),
        "LC_ALL": "C.UTF-8",
        "TORCH_EXTENSIONS_DIR": str(made),
        "TRITON_CACHE_DIR": str(made / "triton"),
        "CUPY_CACHE_DIR": str(made / "cupy"),
        "OMP_NUM_THREADS": "1",
        **({"TRITON_LIBCUDA_PATH": found} if found else {}),
        **({"TORCH_CUDA_ARCH_LIST": _dotted(architecture)} if architecture else {}),
    }
    return policy, environment | own


def _dotted(architecture: str) -> str:
    """`sm_90a` as PyTorch writes it: 9.0a."""
    match = re.fullmatch(r"sm_(\d+)(\d)(\w?)", architecture)
    return f"{match[1]}.{match[2]}{match[3]}" if match else architecture
