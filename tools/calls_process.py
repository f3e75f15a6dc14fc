"""How a task's model is made and called, asked of a process of its own, since the answer takes running the task's code.

Not covered: a baseline, an audit or a verdict; those are the judge's.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from tools.environment import without_secrets
from tools.errors import KernelError, TaskError
from tools.process import run_command
from tools.records import Record, TargetName
from tools.task import TaskSource
from tools.torch_call import ModelCall

SECONDS = 600.0
"""For the reference to be loaded, and run some times at every workload."""


class Calls(Record):
    """A task as its kernels see it."""

    header: str
    """The generated `task.h`."""
    calls: tuple[ModelCall, ...]
    """One for each workload, in their order."""


class _Asked(Record):
    task: TaskSource
    target: TargetName


def calls_of(task: TaskSource, target: TargetName) -> Calls:
    """Raises TaskError where the reference fails, or needs PyTorch and there is none; KernelError where its model can't
    be handed to a kernel."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    done = run_command(
        [sys.executable, "-P", "-m", "tools.calls_process"],
        timeout=SECONDS,
        env=without_secrets() | {"PYTHONPATH": path, "PYTHONUTF8": "1"},
        stdin=_Asked(task=task, target=target).model_dump_json().encode(),
        output_limit=64 << 20,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines()
        how = "did not return" if done.timed_out else f"ended its process: {said[-1] if said else 'it said nothing'}"
        raise TaskError("raised", f"The task's own code {how}", "Run `warpsmith check` on the task.") from None
    if "fault" in answer:
        raise TaskError(answer["fault"], answer["message"], answer["advice"])
    if "message" in answer:
        raise KernelError(answer["message"], answer["advice"])
    return Calls.model_validate(answer)


def main() -> None:
    """One task as JSON on standard input, the answer on standard output; what the task prints goes elsewhere."""
    from tools.contract import task_header
    from tools.opening import bounded_memory
    from tools.reference import load_reference

    asked = _Asked.model_validate_json(sys.stdin.read())
    answer: str
    with contextlib.redirect_stdout(sys.stderr):
        try:
            with bounded_memory():
                reference = load_reference(asked.task, asked.target)
                calls = tuple(reference.model_call(index) for index in range(len(asked.task.workloads)))
            header = task_header(asked.task.name, [call.signature for call in calls])
            answer = Calls(header=header, calls=calls).model_dump_json()
        except TaskError as error:
            answer = json.dumps({"fault": error.fault, "message": error.message, "advice": error.advice})
        except KernelError as error:
            answer = json.dumps({"message": error.message, "advice": error.advice})
    print(answer)


if __name__ == "__main__":
    main()
