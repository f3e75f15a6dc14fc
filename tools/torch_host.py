"""The judge's handle on `tools.torch_server`, and on what it forks.

One server for each target, started when it is first needed and kept until this process ends or the server does: it
holds nothing of a task. A server that was killed is the machinery's failure; the next request starts another.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tools.cache import cache_dir, native_binary
from tools.cuda_process import device_files, driver_environment
from tools.errors import InfrastructureError
from tools.records import TargetName
from tools.sandbox import Confinement, Sandbox, attempt, detect
from tools.targets.cuda_toolkit import find_toolkit
from tools.toolchain import SYSTEM_PATHS, find_compiler

START_SECONDS = 180.0
"""Importing PyTorch takes three seconds, on a busy machine with cold files a minute."""
PATIENCE_SECONDS = 20.0
Task = Literal["torch_worker", "torch_builder"]
_servers: dict[TargetName, TorchServer] = {}
_starting = threading.Lock()


class Forked:
    """A child of the server that leads its own session. See `tools.process.Leader`."""

    def __init__(self, server: TorchServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server
        self._ended = os.pidfd_open(pid)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. subprocess.TimeoutExpired when it runs on."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._ended, select.POLLIN)
            if not poll.poll(None if timeout is None else max(0, timeout * 1e3)):
                raise subprocess.TimeoutExpired("torch worker", timeout or 0.0)
            os.close(self._ended)
            self.returncode = self._server.status(self.pid)
        return self.returncode


class TorchServer:
    """A running server. Any thread may fork; what it forks lives until it is killed or the server ends."""

    def __init__(self, target: TargetName, environment: dict[str, str]) -> None:
        """Waits until PyTorch is imported. InfrastructureError when that fails."""
        jail = native_binary("jail", ("-shared", "-fPIC", "-DJAIL_LIBRARY"))
        guard = native_binary("torch_guard", ("-shared", "-fPIC"))
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._control = here
        command = [sys.executable, "-P", "-m", "tools.torch_server", str(there.fileno()), str(jail), str(guard), target]
        with there:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                pass_fds=(there.fileno(),),
                cwd="/",
                start_new_session=True,
            )
        self._control.settimeout(START_SECONDS)
        try:
            ready = self._received()
        except InfrastructureError:
            self.close()
            raise
        if not ready["ready"]:
            self.close()
            raise InfrastructureError(
                f"torch kernels can't be judged here: {ready['why']}",
                f"Install PyTorch: {sys.executable} -m pip install 'torch>=2.11'",
            )
        self.torch_version: str = ready["torch"]
        self.cuda_version: str | None = ready["cuda"]
        """That PyTorch is built for."""
        self._control.settimeout(PATIENCE_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(
        self, task: Task, sandbox: Sandbox, policy: Confinement, environment: dict[str, str], fds: Sequence[int]
    ) -> Forked:
        """A child that does `task` behind the sandbox; `fds` begin with its channel and its output."""
        jail = sandbox.wrap(["torch"], policy)
        request = {"do": task.removeprefix("torch_"), "jail": jail, "environment": environment}
        data = json.dumps(request).encode()
        with self._lock:
            try:
                socket.send_fds(self._control, [data], list(fds))
            except OSError as error:
                raise self._lost() from error
            return Forked(self, int(self._received()["pid"]))

    def status(self, pid: int) -> int:
        """Exit code of a child that has ended, -n for signal n."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with self._lock:
                try:
                    self._control.send(json.dumps({"do": "reap", "pid": pid}).encode())
                    status = self._received()["status"]
                except (OSError, InfrastructureError):
                    return -signal.SIGKILL  # the server's death was its own
            if status is not None:
                return int(status)
            time.sleep(0.001)
        return -signal.SIGKILL

    def close(self) -> None:
        """End it and all that it forked."""
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()

    def _received(self) -> Any:
        try:
            data = self._control.recv(1 << 16)
        except OSError as error:
            raise self._lost() from error
        if not data:
            raise self._lost()
        return json.loads(data)

    def _lost(self) -> InfrastructureError:
        return InfrastructureError("the server that starts torch workers was lost", "Judge the kernel again.")


def torch_server(target: TargetName, uuid: str | None = None) -> TorchServer:
    """The running server of the target; `uuid` names the GPU that its children may see. InfrastructureError when
    there is none to be had."""
    with _starting:
        server = _servers.get(target)
        if server is not None and server.alive:
            return server
        if server is not None:
            server.close()
        elif not _servers:
            atexit.register(_close_all)
        _servers[target] = TorchServer(target, server_environment(target, uuid))
        return _servers[target]


def _close_all() -> None:
    for server in _servers.values():
        server.close()
    _servers.clear()


def server_environment(target: TargetName, uuid: str | None) -> dict[str, str]:
    """All that the server sees of the environment. What numerical libraries read at import is set here."""
    own = Path(__file__).resolve().parents[1]
    paths = [str(own), *(path for path in os.environ.get("PYTHONPATH", "").split(":") if path)]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": ":".join(dict.fromkeys(paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # or PyTorch makes a context before it forks
    }
    if target == "cuda":
        root = str(find_toolkit().root)
        environment |= {"CUDA_HOME": root, "CUDA_PATH": root, **(driver_environment(uuid) if uuid else {})}
        environment["CUPY_CACHE_DIR"] = str(cache_dir() / "cupy")  # CuPy makes one as it is imported
        environment["CUDA_MODULE_LOADING"] = "LAZY"  # there are gigabytes of kernels in PyTorch's libraries
    return environment


@functools.cache
def forked_sandbox() -> Sandbox:
    """The strongest level that a forked process can put itself in."""
    found = detect()
    if found.level != "bwrap":
        return found
    return attempt("namespaces") or attempt("landlock") or found


def python_folders() -> tuple[Path, ...]:
    """What the interpreter and its packages need to be seen of."""
    named = [Path(path) for path in os.environ.get("PYTHONPATH", "").split(":") if path]
    known = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), sysconfig.get_path("include")]
    places = [Path(sys.base_prefix), Path(sys.prefix), *map(Path, known), *named]
    own = Path(__file__).resolve().parents[1]
    folders = [path.resolve() for path in places if path.is_dir() and path.resolve() != own]
    return tuple(dict.fromkeys(path for path in folders if not _is_system(path)))


def compilers(target: TargetName) -> tuple[tuple[Path, ...], dict[str, str]]:
    """Folders and environment of what builds extensions."""
    compiler = find_compiler()
    ninja = shutil.which("ninja")
    bins = [compiler.path.parent, *([Path(ninja).parent] if ninja else []), Path("/usr/bin"), Path("/bin")]
    folders = [*compiler.folders, *([Path(ninja).resolve().parent] if ninja else [])]
    environment = {"CXX": str(compiler.path), "CC": _c_compiler(compiler.path), "MAX_JOBS": str(os.cpu_count() or 1)}
    if target == "cuda":
        toolkit = find_toolkit()
        bins.insert(0, toolkit.root / "bin")
        folders += toolkit.folders
        environment["CUDA_HOME"] = environment["CUDA_PATH"] = str(toolkit.root)
    environment["PATH"] = ":".join(map(str, dict.fromkeys(bins)))
    return tuple(path for path in folders if not _is_system(path)), environment


def device_paths(target: TargetName) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """What is to be read, and the device files, of a GPU."""
    return ((Path("/sys"),), device_files()) if target == "cuda" else ((), ())


def driver_folder() -> str | None:
    """Where the driver's library lies, for those that would start a program to find it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            if "/libcuda.so" in line:
                return str(Path(line.split(maxsplit=5)[5]).parent)
    return None


def _c_compiler(cxx: Path) -> str:
    beside = cxx.with_name(cxx.name.replace("g++", "gcc"))
    return str(beside if beside.exists() else cxx)


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(each) for each in SYSTEM_PATHS)
