"""What a worker for CUDA kernels gives up before it takes a kernel in: calls that reach out end it, others go on."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tools import cuda_programs

BEGIN = f"""
import ctypes, os, signal, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
threading.Thread(target=threading.Event().wait, daemon=True).start()
libc.prctl(38, 1, 0, 0, 0)  # no new privileges, as in the jail
assert ctypes.CDLL({str(cuda_programs.restraint())!r}).restrain() == 0
"""
REACHING = {
    "kill of its parent": "os.kill(os.getppid(), 0)",
    "kill of a group": "os.kill(0, 0)",
    "kill of all": "os.kill(-1, 0)",
    "another's memory": "libc.process_vm_writev(os.getppid(), None, 0, None, 0, 0)",
    "ptrace": "libc.ptrace(16, os.getppid(), 0, 0)",
    "a program": "os.execv('/bin/true', ['true'])",
    "from another thread": "t = threading.Thread(target=os.kill, args=(os.getppid(), 0)); t.start(); t.join()",
}
HARMLESS = {
    "a signal to itself": "os.kill(os.getpid(), signal.SIGCONT)",
    "threads": "t = threading.Thread(target=print); t.start(); t.join()",
    "files": "open('/proc/self/stat').read()",
    "memory": "bytearray(64 << 20)",
}


def ended(what: str) -> int:
    return subprocess.run([sys.executable, "-c", BEGIN + what], stdout=subprocess.DEVNULL, check=False).returncode


@pytest.mark.parametrize("name", REACHING)
def test_a_call_that_reaches_out_ends_the_process(name: str) -> None:
    assert ended(REACHING[name]) == -signal.SIGSYS


@pytest.mark.parametrize("name", HARMLESS)
def test_what_a_kernel_or_a_driver_needs_goes_on(name: str) -> None:
    assert ended(HARMLESS[name]) == 0
