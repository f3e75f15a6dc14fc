"""Functions in processes of their own that start at once: forked from a process without threads that has loaded what
they need. A fork of the tests' process could wait for ever for what one of its threads holds.

Not covered: what can't be pickled, and what tests replaced in this process.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from unittest import mock

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["crash_warm", "steered_run"])


def run_apart(work: Callable[[], object], seconds: float | None = None) -> int:
    """`work` with this environment, killed after so many seconds; its exit code, or the negative number of the signal
    that ended it."""
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # what it loads beforehand is found here
        forkserver.ensure_running()
    process = _PROCESSES.Process(target=_apart, args=(work, dict(os.environ)))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _apart(work: Callable[[], object], environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)
