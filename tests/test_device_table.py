"""What `check` shows of a CUDA build's kernels says what was declared and what is only assumed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from app.verdict_tables import print_device_code
from tools.device_code import DeviceCode, DeviceFunction
from tools.targets.occupancy import occupancy_by_size


@pytest.mark.parametrize(("declared", "shown"), [(32, " 32 "), (None, "best at 64")])
def test_a_size_of_block_that_nothing_declares_is_called_the_best(declared: int | None, shown: str) -> None:
    code = DeviceCode(architecture="sm_90a", functions=(kernel(declared),))
    screen = Console(file=io.StringIO(), width=160)
    print_device_code(screen, code)
    assert isinstance(screen.file, io.StringIO)
    assert shown in screen.file.getvalue()


def kernel(declared: int | None) -> DeviceFunction:
    occupancy = occupancy_by_size("sm_90a", 32, 0, 1, declared)
    frame = {"stack_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0}
    return DeviceFunction(kind="kernel", name="k", symbol="k", registers=32, static_shared_bytes=0, barriers=1,
                          most_threads=declared, occupancy=occupancy, **frame)  # fmt: skip
