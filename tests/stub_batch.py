"""A batch of tasks that measure nothing, and the process of each, with the faults that its task's description names.

`main(FOLDER, KEY)` is the process of one task. `main(FOLDER, "", NURSERY)` runs the batch as it stands in its folder,
to be killed from outside. Both are started through tests/nursery.py, since importing everything takes seconds, and
without its address (None) as programs of their own.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from stub_executor import TASK, StubExecutor

from agents.batch import Batch, Plan, QueuedTask, SharedBudget
from agents.batch_board import Board
from agents.batch_books import BatchEvent
from agents.batch_crew import Crew
from agents.batch_job import Work, prepare, serve
from agents.batch_queue import BatchFolder
from agents.events import Event
from agents.models import registry
from agents.models.base import OnText, Reply, Request, Usage
from agents.models.builtin import Autotune
from agents.settings import Budgets, RunSettings
from app.signals import stopped_by_signals
from memory.tokens import COUNTER
from tools.errors import InfrastructureError, TaskError
from tools.facts import TaskFacts
from tools.records import Kernel, TargetName, Verdict
from tools.task import TaskSource

FOLDER = Path(__file__).resolve().parent
TOKENS = 100
SETTINGS = RunSettings(budgets=Budgets(iterations=4, near_limit=None, patience=None), judge_waits=())


def seconds_of(kernel: Kernel) -> float:
    return 1.0 / (1 + int(kernel.defines.get("BLOCK", 8)))


class Paid(Autotune):
    """`paid:autotune`: the builtin model, at `TOKENS` a call."""

    name = "paid:autotune"

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        reply = await super().reply(request, on_text)
        return reply.model_copy(update={"usage": Usage(input_tokens=TOKENS - 1, output_tokens=1)})


class Faulty(StubExecutor):
    """`faults`: `refuse` the task when it is opened; `crash` or `break` at the judged kernel of that number, once or
    (with `always`) each time; `hang` when a kernel is judged. Each judged kernel is logged, so that a test sees what
    was measured twice."""

    def __init__(self, faults: dict[str, Any], folder: Path, key: str) -> None:
        super().__init__(seconds_of)
        self._faults, self._marker = faults, folder / f"{key}.fault"
        self._log = folder / f"{key}.judged"

    async def open(self, task: TaskSource, target: TargetName = "cpu") -> TaskFacts:
        if "refuse" in self._faults:
            raise TaskError("degenerate", "an output of zeros would be right", "Use other data.")
        return await super().open(task, target)

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        number = len(self.judged) + 1
        for fault in ("crash", "break"):
            if self._faults.get(fault) == number and not (self._marker.exists() and "always" not in self._faults):
                self._marker.write_text(fault)
                if fault == "crash":
                    os.kill(os.getpid(), signal.SIGSEGV)
                raise InfrastructureError("the judge's process is gone", "Look at the machine.")
        if "hang" in self._faults:
            self._log.touch()
            self.hang = True
        verdict = await super().evaluate(task, kernel, incumbent, final=final)
        with self._log.open("a") as log:
            log.write(f"{kernel.id} {final}\n")
        return verdict


def make_batch(root: Path, faults: dict[str, dict[str, Any]], name: str = "stub") -> BatchFolder:
    """A batch of one task for each key of `faults`."""
    tasks = tuple(
        QueuedTask(
            key=key, path=f"tasks/{key}", task=TASK.model_copy(update={"name": key, "description": json.dumps(fault)})
        )
        for key, fault in faults.items()
    )
    return BatchFolder.create(root, Batch(version="0", name=name, tasks=tasks))


def plan(jobs: int = 2, turn: int = 4, retries: int = 2, settings: RunSettings = SETTINGS, **shared: Any) -> Plan:
    return Plan(settings=settings, shared=SharedBudget(**shared), jobs=jobs, turn=turn, retries=retries, pause=0.0)


def command(nursery: str | None, *arguments: str) -> tuple[str, ...]:
    if nursery is None:
        return (sys.executable, str(Path(__file__).resolve()), *arguments)
    return (sys.executable, "-S", "-E", str(FOLDER / "nursery.py"), nursery, *arguments)


def crew(folder: BatchFolder, asked: Plan, events: list[BatchEvent], nursery: str | None) -> Crew:
    return Crew(
        folder,
        asked,
        lambda key: command(nursery, str(folder.path), key),
        lambda task: {"task": task.task.model_dump(mode="json")},
        events.append,
    )


async def run(folder: BatchFolder, asked: Plan, nursery: str | None, events: list[BatchEvent] | None = None) -> Board:
    return await crew(folder, asked, [] if events is None else events, nursery).run()


async def _run_aloud(folder: BatchFolder, asked: Plan, nursery: str | None) -> None:
    """As `warpsmith batch` heeds signals; each event goes out as a line of JSON, after one that says which process."""

    def say(kind: str, fields: object) -> None:
        sys.stdout.write(json.dumps({"kind": kind, "fields": fields}) + "\n")
        sys.stdout.flush()

    say("pid", os.getpid())
    made = crew(folder, asked, [], nursery)
    made.on_event = lambda event: say(event.kind, event.fields)
    with stopped_by_signals(made.halt):
        await made.run()


def work_on(folder: BatchFolder, key: str) -> Work:
    task, asked, run_folder = folder.batch().task(key).task, folder.board().plan, folder.run_of(key)
    assert asked is not None and run_folder is not None
    executor = Faulty(json.loads(task.description), folder.path, key)

    def hear(event: Event) -> None:
        with (folder.path / f"{key}.heard").open("a") as heard:
            heard.write(f"{event.event}\n")

    return Work(task, asked.settings, run_folder, executor, state=asked.state, on_event=hear)


def warm() -> None:
    """Load what a run loads at its first model call."""
    importlib.import_module("optuna")
    COUNTER.count("warm")


def main(path: str, key: str, nursery: str | None = None) -> None:
    folder = BatchFolder(Path(path))
    if not key:
        asyncio.run(_run_aloud(folder, Plan.model_validate_json((folder.path / "plan.json").read_text()), nursery))
        return
    prepare()
    registry.LOCAL["paid"] = lambda _, seed: Paid(seed)
    asyncio.run(serve(work_on(folder, key)))


if __name__ == "__main__":
    main(*sys.argv[1:])
