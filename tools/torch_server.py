"""A process that has PyTorch imported and forks: what it forks starts in milliseconds instead of seconds.

    python -P -m tools.torch_server CONTROL JAIL GUARD TARGET

CONTROL is a socket to the judge, JAIL and GUARD the shared objects of `native/jail.cpp` and `native/torch_guard.cpp`.
It runs nothing of a kernel, holds no value and has no CUDA context. Each child gets the descriptors that came with the
request, enters the sandbox that the request names, and only then runs `tools.torch_worker` or `tools.torch_builder`.
The end of CONTROL ends it, and its death ends its children.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import socket
import sys
import traceback
import warnings
from typing import Any, NoReturn

MOST_DESCRIPTORS = 250
REQUEST_BYTES = 1 << 17
PRELOADED = {
    "cpu": ("numpy", "torch", "torch.utils.cpp_extension", "torch.utils._python_dispatch"),
    "cuda": ("numpy", "torch", "torch.utils.cpp_extension", "torch.utils._python_dispatch", "triton", "cupy"),
}
"""What kernels import. Where one is not installed, kernels that need it say so themselves."""
NEEDED = ("torch",)
OWN = (
    "ast",
    "tools.torch_worker",
    "tools.torch_builder",
    "tools.torch_profile",
    "tools.cuda_memory",
    "tools.cuda_flush",
)
"""What children use of ours: its files are out of their sight."""
LEARNT: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("triton.runtime.build", "platform_key", ()),
    ("triton.runtime.cache", "triton_key", ()),
    *(("triton.backends.nvidia.compiler", "get_ptxas_version", (each,)) for each in (80, 86, 89, 90)),
)
"""What Triton asks once a process."""
_CRASHED = 70


def main() -> None:
    """Serve until the control socket ends."""
    control = socket.socket(fileno=int(sys.argv[1]))
    jail, guard, target = sys.argv[2:5]
    try:
        entering = ctypes.CDLL(jail).jail_enter
        ctypes.CDLL(guard)
        versions = _preload(target)
    except (ImportError, OSError) as error:
        control.send(json.dumps({"ready": False, "why": str(error)}).encode())
        return
    gc.collect()
    gc.freeze()  # so that children do not copy all pages when they collect
    control.send(json.dumps({"ready": True, **versions}).encode())
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, MOST_DESCRIPTORS)
        if not data:
            return
        request = json.loads(data)
        if request["do"] == "reap":
            control.send(json.dumps({"status": _status(request["pid"])}).encode())
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # forking beside the idle threads of numerical libraries
            pid = os.fork()
        if pid == 0:
            control.close()
            _become(request, descriptors, entering, guard)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(json.dumps({"pid": pid}).encode())


def _preload(target: str) -> dict[str, Any]:
    for name in PRELOADED[target]:
        if name in NEEDED or importlib.util.find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)
    for name in OWN:
        importlib.import_module(name)
    importlib.import_module("tools.torch_ops").framework_namespaces()
    torch: Any = importlib.import_module("torch")
    if target == "cuda" and importlib.util.find_spec("triton") is not None:
        _warm_triton()
    return {"torch": str(torch.__version__), "cuda": torch.version.cuda}


def _warm_triton() -> None:
    """Have Triton remember what it learns by starting programs, which a worker can't: its keys depend on it."""
    for module, function, arguments in LEARNT:
        with contextlib.suppress(Exception):  # another version of Triton: its kernels then say what they lack
            getattr(importlib.import_module(module), function)(*arguments)


def _status(pid: int) -> int | None:
    """Its exit code, -n for signal n, or None while it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return -9
    return os.waitstatus_to_exitcode(status) if ended else None


def _become(request: dict[str, Any], descriptors: list[int], entering: Any, guard: str) -> NoReturn:
    """Go into the sandbox and do the work; the first three descriptors are the channel and the output."""
    code = _CRASHED
    try:
        os.setsid()
        for stream in (1, 2):
            os.dup2(descriptors[2], stream)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.environ.update(request["environment"])
        words = [word.encode() for word in request["jail"]]
        entering(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None))
        os.chdir("/")
        module = importlib.import_module(f"tools.torch_{request['do']}")
        module.serve(descriptors, guard)
        code = 0
    except SystemExit:
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may go on in here as if it were the server
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
