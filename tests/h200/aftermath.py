"""What a fault on a GPU leaves behind: another judge's worker beside it, the device's memory, the next verdict."""

from __future__ import annotations

import contextlib
import time

from bystander import Bystander
from fixture_rows import (
    KERNELS,
    ROOT,
    as_expected,
    build_all,
    failed_row,
    fixture_task,
    judged,
    native_kernel,
    native_rows,
    shortened,
)
from recording import Report

from tools.cuda_process import free_bytes
from tools.judge import Judge, open_task

HONEST = "cuda_honest"
"""The kernel of the next verdict, and of the worker beside it."""
NOISE = 1 << 20
"""Bytes of device memory that may differ from before a fault to after it."""
PATIENCE = 2.0
"""Seconds in which the driver may give back what an ended sanitizer held."""


class Aftermath:
    """A judge that provokes faults, and another one beside it. Both are made anew after a row that went wrong."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._judge: Judge | None = None
        self._beside: Bystander | None = None

    def of(self, name: str, expected: Report) -> Report:
        """One row, or why there is none."""
        begin = time.perf_counter()
        try:
            judge, bystander = self._ready()
            calls, free = bystander.right_calls(), device_free(judge)
            row = judged(judge, native_kernel(name))
            after = device_free_again(judge, free)
            following = judged(judge, native_kernel(HONEST))["verdict"]
            row |= {
                "free_bytes": {"before": free, "after": after},
                "next": {key: following.get(key) for key in ("status", "stage", "reason", "worst_error")},
                "right_calls_beside": bystander.right_calls() - calls,
            }
        except Exception as error:  # noqa: BLE001 - the other rows are still worth their device time
            self.close()
            return failed_row(error, begin)
        row["as_expected"] = (
            as_expected(row["verdict"], expected)
            and row["next"]["status"] == "accepted"
            and row["free_bytes"]["after"] >= row["free_bytes"]["before"] - NOISE
            and row["right_calls_beside"] > 0
        )
        told = {key: row[key] for key in ("free_bytes", "next", "right_calls_beside")}
        print(name, told, flush=True)
        return {**row, "verdict": shortened(name, row["verdict"])}

    def _ready(self) -> tuple[Judge, Bystander]:
        if self._judge is None or self._beside is None:
            self._judge = self._stack.enter_context(open_task(fixture_task(""), "cuda"))
            build_all(self._judge, [native_kernel(name) for name, row in native_rows().items() if row.get("fault")])
            self._beside = Bystander(ROOT / "examples/softmax", KERNELS / HONEST)
            self._stack.callback(self._beside.close)
            self._judge.evaluate(native_kernel(HONEST))  # what it keeps, it has now
        return self._judge, self._beside

    def close(self) -> None:
        with contextlib.suppress(Exception):  # what is broken may not even close
            self._stack.close()
        self._stack, self._judge, self._beside = contextlib.ExitStack(), None, None


def device_free(judge: Judge) -> int:
    """Bytes, once no worker waits to be asked for."""
    judge.device.dismiss()
    return free_bytes()


def device_free_again(judge: Judge, before: int) -> int:
    """Bytes, as soon as there are as many as before, else after a while."""
    deadline = time.monotonic() + PATIENCE
    while (free := device_free(judge)) < before - NOISE and time.monotonic() < deadline:
        time.sleep(0.05)
    return free
