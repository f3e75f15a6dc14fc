"""A run driven beside a terminal: signals end it, and at a limit it may wait for a person."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import JsonValue

from agents.context import OnRoleText
from agents.control import Control
from agents.drive import optimize
from agents.events import OnEvent
from agents.limits import StopReason
from agents.settings import RunSettings
from app.changes import as_told
from app.configuration import Configuration
from app.live import Progress
from app.pausing import may_wait, wait_for_a_person
from app.read_again import read_again
from app.report import write_report
from app.signals import CUTTING, FINISHING, stopped_by_signals
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.executor import Executor
from tools.task import TaskSource


async def drive(
    task: TaskSource,
    settings: RunSettings,
    run: RunFolder,
    executor: Executor,
    *,
    progress: Progress,
    on_event: OnEvent,
    configuration: Configuration,
    state: str | None,
    changes: dict[str, JsonValue] | None,
) -> int | None:
    """Drive the run; the number of the signal that stopped it, if one did. Everything it started is gone afterwards.

    state, changes: as of `agents.drive.optimize`. Raises what that raises.
    """
    control = Control()

    def stop(at_once: bool) -> None:
        progress.note(CUTTING if at_once else FINISHING)
        control.stop("user", grace=0.0) if at_once else control.finish("user")

    with run.alone(), stopped_by_signals(stop) as caught, progress:
        await to_its_end(
            task,
            settings,
            run,
            executor,
            control=control,
            on_event=on_event,
            on_text=progress.say,
            configuration=configuration,
            state=state,
            changes=changes,
            given_up=lambda: caught,
        )
    return caught[0] if caught else None


async def to_its_end(
    task: TaskSource,
    settings: RunSettings,
    run: RunFolder,
    executor: Executor,
    *,
    control: Control,
    on_event: OnEvent,
    on_text: OnRoleText | None,
    configuration: Configuration,
    state: str | None,
    changes: dict[str, JsonValue] | None,
    given_up: Callable[[], object],
) -> None:
    """Drive the run until it is over, and close its executor. At a limit it waits for a person, where the settings say
    so, until somebody lifts it or `given_up`. The caller holds the folder. Raises as `agents.drive.optimize`."""

    async def once(settings: RunSettings, changes: dict[str, JsonValue] | None) -> StopReason:
        outcome = await optimize(
            task,
            settings,
            run,
            executor,
            on_event,
            control=control,
            connections=configuration.connections,
            catalogue=configuration.catalogue,
            on_text=on_text,
            state=state,
            changes=changes,
            read_again=functools.partial(read_again, configuration),
        )
        return outcome.reason

    try:
        reason = await once(settings, changes)
        while may_wait(settings, reason) and not given_up():
            await executor.close()  # others may have the device meanwhile
            lifted = await wait_for_a_person(
                run,
                task.name,
                reason,
                on_event=on_event,
                on_paused=lambda: report_of(run),
                given_up=given_up,
            )
            if lifted is None:
                return
            settings = lifted.settings
            control.renew()
            reason = await once(settings, as_told(lifted.changes))
    finally:
        await executor.close()


def report_of(run: RunFolder) -> Path | None:
    """The report, written anew. One that can't be written costs a sentence, not the result."""
    try:
        return write_report(RunFolder(run.path))
    except RunFolderError as error:
        print(f"warning: {error}", file=sys.stderr)
        return None
