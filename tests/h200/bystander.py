"""Another judge, whose worker is called and whose results are checked while something goes wrong beside it.

    python -P tests/h200/bystander.py TASK KERNEL

It answers each line on its input by how many calls were right so far, and ends with the first that is not, or when its
input ends.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tools.judge import open_task  # noqa: E402
from tools.task import read_kernel, read_task  # noqa: E402

WARM_CALLS, PAUSE = 20, 0.05
"""Calls before it is ready, and seconds that it lets others have the device between two."""
PATIENCE = 60.0
"""Seconds that an answer may take: it waits for the device as any judge does."""


class Bystander:
    """The handle on it. Raises RuntimeError when it has ended or says nothing."""

    def __init__(self, task: Path, kernel: Path) -> None:
        command = [sys.executable, "-P", __file__, str(task), str(kernel)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.right_calls()

    def right_calls(self) -> int:
        """Since it began."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("?\n")
            self._process.stdin.flush()
        ready = select.select([self._process.stdout], [], [], PATIENCE)[0]
        told = self._process.stdout.readline() if ready else ""
        if not told:
            raise RuntimeError("the worker beside has ended" if ready else "the worker beside does not answer")
        return int(told)

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def stand_by(task: Path, kernel: Path) -> None:
    """Call and check. Raises what a wrong result or a fault raises."""
    calls = 0
    with contextlib.ExitStack() as stack:
        judge = stack.enter_context(open_task(read_task(task), "cuda"))
        runner = stack.enter_context(judge.runner(judge.build_variant(read_kernel(kernel), "release")))
        while True:
            with judge.lock(shared=True):
                runner.call_unclocked(judge.content.fresh(0))
                runner.verify_last()
            calls += 1
            if calls > WARM_CALLS and select.select([sys.stdin], [], [], PAUSE)[0]:
                if not sys.stdin.readline():
                    return
                print(calls, flush=True)


if __name__ == "__main__":
    stand_by(Path(sys.argv[1]), Path(sys.argv[2]))
