"""Drives one task to an end, and says how it ended: what a run needs around it is made here and closed here."""

from __future__ import annotations

from contextlib import aclosing

from pydantic import JsonValue

from agents.casting import Casting, ReadAgain, refuse_without_start
from agents.context import OnRoleText
from agents.control import Control
from agents.course import Course
from agents.events import Journal, OnEvent, bound
from agents.library_log import library_log
from agents.models.catalogue import Catalogue
from agents.models.connections import Connections
from agents.models.costs import Answered, spent_so_far
from agents.models.money import CommonPurse, Purse
from agents.outcome import Outcome
from agents.secrets import Scrubber
from agents.settings import Role, RunSettings
from agents.spoken import Spoken
from agents.state_address import passwords_in
from agents.told import Told
from agents.upgrade import upgrade
from agents.wishes import Wishes
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.errors import InfrastructureError
from tools.executor import Executor
from tools.task import TaskSource


async def optimize(
    task: TaskSource,
    settings: RunSettings,
    run: RunFolder,
    executor: Executor,
    on_event: OnEvent,
    *,
    control: Control | None = None,
    connections: Connections | None = None,
    catalogue: Catalogue | None = None,
    on_text: OnRoleText | None = None,
    common: CommonPurse | None = None,
    state: str | None = None,
    changes: dict[str, JsonValue] | None = None,
    read_again: ReadAgain | None = None,
) -> Outcome:
    """Runs `task` until one of the stop reasons holds and returns how it ended.

    executor: the caller closes it. connections: where providers are reached, and with which keys; nothing that is
    written or told holds one. catalogue: windows and prices. on_text: hears replies as they come, by role.
    common: what this run pays from together with others, beside its own budgets. state: where checkpoints are kept
    (`agents.checkpoints`). changes: what was asked for otherwise than before, to be told: setting to before and after.
    read_again: where providers are reached once a person chooses other models; None: as at the beginning.

    Writes everything into `run`: events.jsonl, attempts, best, state.sqlite, facts.json, outcome.json. A run folder
    that was begun before is gone on with, whatever process ended how; no other process may work on it meanwhile.
    Neither prints nor installs signal handlers: the caller passes a `Control` and calls its `stop` on Ctrl-C; the run
    then ends with the reason `user`. Cancelling the coroutine works too: outcome.json is written before CancelledError
    goes on.

    Raises UnknownModel, ModelError (a key is missing), TaskError (the task can't be opened), KernelError (there is no
    starting kernel to tune, or its settings are not allowed), InfrastructureError (the judge is gone, or the run folder
    can't be written; `RunBroken` once something was measured, and then outcome.json says which fault it was, where it
    can be written); the folder stays whole and resumable.
    """
    refuse_without_start(task, settings)
    scrubber = Scrubber.of(connections, passwords_in(state))
    run.keep_out(scrubber.known)
    try:
        with run.alone():
            upgrade(run)
            events = run.events()
            purse = Purse(settings.budgets.dollars, settings.budgets.tokens, spent_so_far(events), common)
            casting = Casting(settings, connections, catalogue or Catalogue.with_prices(), purse, scrubber, read_again)
            async with aclosing(casting):
                models, told = casting.roles(), Told(events)
                run.reopen()
                with (
                    bound(run=run.id, task=task.name),
                    library_log(run.path / "log.jsonl", scrubber),
                    Spoken(run.path, scrubber) as spoken,
                    Journal(run.path / "events.jsonl", spoken.ended(on_event), scrubber, told) as journal,
                ):
                    course = Course(
                        task,
                        settings,
                        run,
                        executor,
                        journal,
                        control or Control(),
                        casting,
                        models,
                        Answered(events),
                        told,
                        spoken.heard(on_text or _heard_by_nobody),
                        state_at=state,
                        changes=changes or {},
                        wishes=Wishes.of(events),
                    )
                    return await course.go()
    except RunFolderError as error:
        raise InfrastructureError(error.message, error.advice) from error


def _heard_by_nobody(_role: Role, _piece: str) -> None:
    return None
