"""The process of one task of a batch: `python -m app.batch_job FOLDER KEY`. Started by `warpsmith batch` alone."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from pathlib import Path

from agents.batch import Plan
from agents.batch_job import Work, prepare, serve
from agents.batch_queue import BatchFolder
from app.batch_plan import STATE_VARIABLE, configuration_of
from app.read_again import read_again
from app.tracing import traced
from tools.errors import InfrastructureError
from tools.executor import executor_for


def main(path: str, key: str) -> None:
    """Drive the task's run as the batch's process says, until that closes the pipe."""
    prepare()
    asyncio.run(_serve(BatchFolder(Path(path)), key))


async def _serve(folder: BatchFolder, key: str) -> None:
    plan = _plan_of(folder)
    work = work_of(folder, key, os.environ.pop(STATE_VARIABLE, None))
    with traced(plan.otel, os.environ, work.run.id, lambda _: None, _warn) as work.on_event:
        await serve(work)


def _plan_of(folder: BatchFolder) -> Plan:
    plan = folder.board().plan
    if plan is None:
        raise InfrastructureError(f"the batch {folder.path} has no plan")
    return plan


def work_of(folder: BatchFolder, key: str, state: str | None = None) -> Work:
    """What the process of that task does. state: where checkpoints are kept, when it may not stand in the plan. Raises
    InfrastructureError for a task that was not begun."""
    plan, run = _plan_of(folder), folder.run_of(key)
    if run is None:
        raise InfrastructureError(f"the batch {folder.path} has no run of {key}")
    configuration = configuration_of(plan, os.environ, Path.cwd())
    keys = [connection.key_env for connection in configuration.connections.providers.values() if connection.key_env]
    return Work(
        task=folder.batch().task(key).task,
        settings=plan.settings,
        run=run,
        executor=executor_for(plan.executor, withheld=keys),
        connections=configuration.connections,
        catalogue=configuration.catalogue,
        state=state or plan.state,
        read_again=functools.partial(read_again, configuration),
    )


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
