"""A run driven beside a terminal: signals end it, and at a limit it may wait for a person."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import JsonValue

from agents.control import Control
from agents.drive import optimize
from agents.events import OnEvent
from agents.limits import StopReason
from agents.settings import RunSettings
from app.changes import as_told
from app.configuration import Configuration
from app.live import Progress
from app.pausing import may_wait, wait_for_a_person
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

    async def to_its_end(settings: RunSettings, changes: dict[str, JsonValue] | None) -> StopReason:
        outcome = await optimize(
            task,
            settings,
            run,
            executor,
            on_event,
            control=control,
            connections=configuration.connections,
            catalogue=configuration.catalogue,
            on_text=progress.say,
            state=state,
            changes=changes,
        )
        return outcome.reason

    with run.alone(), stopped_by_signals(stop) as caught, progress:
        try:
            reason = await to_its_end(settings, changes)
            while may_wait(settings, reason) and not caught:
                await executor.close()  # others may have the device meanwhile
                lifted = await wait_for_a_person(
                    run,
                    task.name,
                    reason,
                    on_event=on_event,
                    on_paused=lambda: report_of(run),
                    given_up=lambda: caught,
                )
                if lifted is None:
                    break
                settings = lifted.settings
                control.renew()
                reason = await to_its_end(settings, as_told(lifted.changes))
        finally:
            await executor.close()
    return caught[0] if caught else None


def report_of(run: RunFolder) -> Path | None:
    """The report, written anew. One that can't be written costs a sentence, not the result."""
    try:
        return write_report(RunFolder(run.path))
    except RunFolderError as error:
        print(f"warning: {error}", file=sys.stderr)
        return None
