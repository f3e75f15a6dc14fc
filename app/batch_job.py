"""The process of one task of a batch: `python -m app.batch_job FOLDER KEY`. Started by `warpsmith batch` alone."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from agents.batch_job import Work, prepare, serve
from agents.batch_queue import BatchFolder
from app.batch_plan import STATE_VARIABLE, configuration_of
from app.tracing import traced
from tools.errors import InfrastructureError
from tools.executor import executor_for


def main(path: str, key: str) -> None:
    """Drive the task's run as the batch's process says, until that closes the pipe."""
    prepare()
    asyncio.run(_serve(BatchFolder(Path(path)), key))


async def _serve(folder: BatchFolder, key: str) -> None:
    plan, run = folder.board().plan, folder.run_of(key)
    if plan is None or run is None:
        raise InfrastructureError(f"the batch {folder.path} has no run of {key}")
    configuration = configuration_of(plan, os.environ, Path.cwd())
    keys = [connection.key_env for connection in configuration.connections.providers.values() if connection.key_env]
    state = os.environ.pop(STATE_VARIABLE, None) or plan.state
    work = Work(
        task=folder.batch().task(key).task,
        settings=plan.settings,
        run=run,
        executor=executor_for(plan.executor, withheld=keys),
        connections=configuration.connections,
        catalogue=configuration.catalogue,
        state=state,
    )
    with traced(plan.otel, os.environ, run.id, lambda _: None, _warn) as work.on_event:
        await serve(work)


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
