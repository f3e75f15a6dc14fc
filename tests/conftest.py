"""What holds for all tests and for every process that they start."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

# Nothing here rests on a quiet machine, so no judge waits long for one.
os.environ.setdefault("WARPSMITH_PATIENCE", "0.5")
# Make passes its options and its level on to whatever it starts; these tests are not a part of its run.
for name in ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "GNUMAKEFLAGS", "MAKE_TERMOUT", "MAKE_TERMERR"):
    os.environ.pop(name, None)
# Nobody's own lessons are read or added to; the folder is made only when a test leaves something there.
os.environ["WARPSMITH_DATA"] = str(Path(tempfile.gettempdir(), f"warpsmith-tests-{os.getpid()}"))

# fmt: off
MEASURES = {
    "test_broken_kernels.py", "test_cheating.py", "test_cuda_profile.py", "test_drive.py", "test_early_look.py",
    "test_environment.py", "test_executor.py", "test_experiment.py", "test_export_kernel.py", "test_hardware.py",
    "test_jobs.py", "test_judge.py", "test_neighbours.py", "test_profile.py", "test_quick.py", "test_service.py",
    "test_tune.py", "test_worker.py",
}
# fmt: on
"""Files most of whose tests judge kernels themselves: beside others they would wait for quiet."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks them, so that `make test` runs the others two at a time."""
    for item in items:
        if item.path.name in MEASURES:
            item.add_marker("measures")
